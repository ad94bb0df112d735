#!/bin/sh
# uv in the place of the real one, as a front of the toy Python.
case "$1" in
  venv) exec "$TOY_PYTHON" -m venv "$4" ;;
  pip) while [ "$1" != --python ]; do shift; done; python="$2"
    for spec in "$@"; do :; done
    [ "$UV_FIND_LINKS" = "$TOY_LINKS" ] || exit 9
    "$python" -m pip install "$spec" && "$python" -m pip uninstall torchvision ;;
esac
