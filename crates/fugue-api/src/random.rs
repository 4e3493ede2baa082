use crate::Error;

/// Random bytes from the kernel, for keys, ids and secrets. `fugue-core` must not call this function: a state machine
/// receives random bytes as input.
pub fn random_bytes<const N: usize>() -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    match getrandom::fill(&mut bytes) {
        Ok(()) => Ok(bytes),
        Err(error) => Err(Error::internal(format!(
            "the kernel returned no random bytes: {error}"
        ))),
    }
}

/// 128 random bits as 32 hexadecimal digits.
pub fn random_hex() -> Result<String, Error> {
    let bytes = random_bytes()?;
    Ok(format!("{:032x}", u128::from_be_bytes(bytes)))
}
