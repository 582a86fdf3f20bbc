#!/usr/bin/env bash
# Writes the table of the config into README.md, from the declarations in src/config.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
TRAINER_UPDATE_README=1 cargo test --release --test readme
