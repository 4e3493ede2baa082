//! Links the binary at a fixed address.
//!
//! Every pane has a process of this binary, and one that can be loaded anywhere first rewrites 20,000 addresses in
//! 400 KB of its own memory. Without that a holder starts sooner and shares these pages with all others.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-link-arg-bins=-no-pie");
}
