//! Says every request, reply, event, id and error once.
