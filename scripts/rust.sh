# Sourced by our scripts: finds a Rust toolchain, also where HOME is empty and the toolchain belongs to another home.
# rustup's own directories lie beside the cargo that is in PATH.
have() { command -v "$1" >/dev/null 2>&1; }

find_rust() {
    if ! have cargo; then
        local bin
        for bin in "${CARGO_HOME:-${HOME:-/nonexistent}/.cargo}/bin" /root/.cargo/bin /usr/local/cargo/bin; do
            if [ -x "$bin/cargo" ]; then PATH=$bin:$PATH; fi
        done
    fi
    if ! have cargo; then
        echo "missing: cargo (Rust $(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml) or newer, with rustfmt and clippy); install it with rustup" >&2
        exit 1
    fi
    if ! cargo --version >/dev/null 2>&1; then
        local home rustup
        home=$(dirname "$(dirname "$(command -v cargo)")")
        for rustup in "${home%/*}/.rustup" "${home%/*}/rustup"; do
            if [ -z "${RUSTUP_HOME:-}" ] && [ -d "$rustup/toolchains" ]; then export RUSTUP_HOME=$rustup; fi
        done
        if [ -z "${CARGO_HOME:-}" ] && [ -d "$home/registry" ] && [ -w "$home" ]; then export CARGO_HOME=$home; fi
    fi
    cargo --version >&2 || { echo "missing: a toolchain for the cargo at $(command -v cargo)" >&2; exit 1; }
}
