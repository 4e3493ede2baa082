//! A private world for end-to-end tests.
