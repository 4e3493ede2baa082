use std::path::Path;

use crate::{agents, config::parse};

/// Any text as `config.toml`: it is refused with the file's name, or is equal after it was written and parsed again.
pub fn config(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else {
        return;
    };
    let path = Path::new("/home/ada/.config/fugue/config.toml");
    let settings = match parse(path, text) {
        Ok(settings) => settings,
        Err(error) => {
            assert!(error.message.starts_with("/home/ada"), "{error}");
            return;
        }
    };
    let written = toml::to_string(&settings).expect("settings are TOML");
    assert_eq!(parse(path, &written).as_ref(), Ok(&settings));
    settings.idle_threshold_ms();
    settings.draft_wait();
    settings.forget_after();
    settings.logs_quota_bytes();
    settings.free_disk_floor_bytes();
    for name in settings.agents.keys() {
        let _ = agents::find_agent(name, &settings.agents);
    }
}
