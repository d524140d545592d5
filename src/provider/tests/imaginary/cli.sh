#!/bin/sh
# The imaginary CLI, for the test that runs it.
case "$*" in
  --version) echo "imaginary 1.2.3" ;;
  "login status") echo "logged in as somebody" ;;
  *--quiet*)
    cat >/dev/null
    echo "error: unexpected argument '--quiet' found" >&2
    exit 2
    ;;
  *)
    cat >/dev/null
    if [ -n "$IMAGINARY_FAILS" ]; then
      echo "Error: $IMAGINARY_FAILS" >&2
      exit 1
    fi
    echo '{"role":"assistant","content":"OK."}'
    ;;
esac
