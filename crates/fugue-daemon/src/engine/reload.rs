//! The settings in force: a report of them, and reading them again.

use std::sync::Arc;

use fugue_api::{
    Error,
    wire::{CallerEnv, Response},
};
use fugue_core::CoreInput;

use super::{Engine, EngineEvent, LoopControl};
use crate::{
    config::{self, LoadedSettings},
    pending_calls::Responder,
    resolve::variable,
};

impl Engine {
    pub(super) fn settings_report(&self, caller: &CallerEnv) -> Result<Response, Error> {
        let (file, settings) = (&self.context.paths.config, self.context.settings());
        let lookup = |name: &str| variable(caller, name).and_then(|value| value.into_string().ok());
        let report = config::report(file, &settings, caller.setting_names, lookup)?;
        Ok(Response::Settings { report })
    }

    /// Reads `config.toml` on a blocking thread.
    pub(super) fn read_settings(&self, responder: Responder) {
        let (events, context) = (self.event_sender.clone(), Arc::clone(&self.context));
        tokio::task::spawn_blocking(move || {
            let outcome = config::load(&context.paths.config);
            let _ = events.blocking_send(EngineEvent::SettingsRead { outcome, responder });
        });
    }

    /// After an error the settings in force stay.
    pub(super) fn put_settings_into_force(
        &mut self,
        outcome: Result<LoadedSettings, Error>,
        responder: Responder,
    ) -> LoopControl {
        let read = match outcome {
            Ok(read) => read,
            Err(error) => {
                tracing::warn!(%error, "settings not reloaded");
                responder.answer(Err(error));
                return LoopControl::Continue;
            }
        };
        let old = self.context.settings();
        let changes = config::changes(&old, &read);
        let settings = old.after_reload(read);
        let in_core = Box::new(settings.settings.clone());
        self.context.set_settings(settings);
        let going = self.step(CoreInput::SettingsChanged(in_core));
        self.check_quota();
        let keys: Vec<&str> = changes.iter().map(|change| change.key.as_str()).collect();
        tracing::info!(?keys, "settings reloaded");
        responder.answer(Ok(Response::SettingsReloaded { changes }));
        going
    }
}
