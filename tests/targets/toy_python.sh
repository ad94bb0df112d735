#!/bin/sh
# A Python in the place of the real one: it "makes" environments and "installs" packages as files, at once.
# TOY_FAILS: words of a command that fails.
case "$*" in *"${TOY_FAILS:-nothing fails}"*) echo "it can't: $TOY_FAILS" >&2; exit 3;; esac
library() { echo "$(dirname "$(dirname "$0")")/lib/python3.11/site-packages"; }
package() { mkdir -p "$(library)/$1-$2.dist-info"; printf 'Metadata-Version: 2.1\nName: %s\nVersion: %s\n' "$1" "$2" > "$(library)/$1-$2.dist-info/METADATA"; }
case "$*" in
  "-m venv "*)
    mkdir -p "$3/bin" "$3/lib/python3.11/site-packages"
    cp "$0" "$3/bin/python"
    echo "version = 3.11.7" > "$3/pyvenv.cfg" ;;
  *" install "*==*)
    for spec in "$@"; do :; done
    echo "Collecting $spec"
    package "$(echo "${spec%%==*}" | tr - _)" "${TOY_VERSION:-${spec##*==}}"
    package torch 2.13.0+cpu; package torchvision 0.28.0 ;;
  *" uninstall "*)
    rm -rf "$(library)"/torchvision-* ;;
esac
