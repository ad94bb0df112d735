"""The boundary between vLLM and code that plugs into it: its rules as data, and watches that check every call.

``rules`` has the rules and where the engine states them; ``watching`` and the four watches (``cache_policy``,
``manager``, ``worker``, ``connector``) stand between the engine and an object and check each call against a small
ledger of ours; ``exercise`` with ``policy_calls`` and ``manager_calls`` calls an object alone, without an engine, in
every order that the engine can produce; ``loading`` finds the code that a user named.
"""
