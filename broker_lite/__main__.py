"""python -m broker_lite"""

from broker_lite.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
