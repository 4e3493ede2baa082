//! Completions of workers and of runs.

use super::*;

#[test]
fn a_turn_gives_one_completion_with_the_agents_own_words() {
    let mut story = story();
    live(&mut story, 1, "w", 1, 1);
    story.speaks(worker("w-a", 1));
    assert_eq!(
        hook(&mut story, 2, ended("all done")),
        "work out 1, commit 1, answer 2"
    );
    story.speaks(session("lead"));
    wait(&mut story, 3, json!({}));
    assert_eq!(worked_out(&mut story, 1), "commit 3, hand 3 e1");
    let told = story.told(3).clone();
    assert_eq!(told["message"], json!("all done"));
    assert_eq!(told["changes"], json!(["a.rs | 1 +"]));
    assert_eq!(
        (&told["turn"], &told["instance"], &told["synthesized"]),
        (&json!(1), &json!(1), &Value::Null)
    );
    story.speaks(worker("w-a", 1));
    assert_eq!(
        hook(&mut story, 4, ended("again")),
        "commit 1, answer 4",
        "no prompt came between, so no turn ended"
    );
}

#[test]
fn a_stop_hook_behind_a_notice_adds_nothing() {
    let mut story = story();
    live(&mut story, 1, "w", 1, 1);
    story.speaks(worker("w-a", 1));
    let notice = json!({"status": "success", "message": "mine"});
    assert_eq!(
        call(&mut story, 2, "notify_completion", notice),
        "work out 1, commit 1"
    );
    hook(&mut story, 3, ended("hook's"));
    assert_eq!(worked_out(&mut story, 1), "commit 3, answer 2");
    assert_eq!(story.told(2)["event_id"], json!("e1"));
    story.fact(1, exited(0));
    story.speaks(session("lead"));
    any(&mut story, 4);
    assert_eq!(story.told(4)["message"], json!("mine"));
    assert_eq!(
        any(&mut story, 5),
        "nothing for 5",
        "nor does the process's end"
    );
}

#[test]
fn a_notice_with_changes_of_its_own_waits_for_nobody() {
    let mut story = story();
    live(&mut story, 1, "w", 1, 1);
    story.speaks(worker("w-a", 1));
    let notice = json!({"status": "error", "changes": ["x | 2 +"], "message": "no"});
    assert_eq!(
        call(&mut story, 2, "notify_completion", notice),
        "commit 3, answer 2"
    );
    story.speaks(session("lead"));
    any(&mut story, 3);
    assert_eq!(story.told(3)["changes"], json!(["x | 2 +"]));
    assert_eq!(story.told(3)["status"], json!("error"));
}

#[test]
fn each_explicit_notice_is_an_event_also_behind_the_stop_hook() {
    let mut story = story();
    live(&mut story, 1, "w", 1, 1);
    story.speaks(worker("w-a", 1));
    hook(&mut story, 2, ended("hook's"));
    worked_out(&mut story, 1);
    let notice = json!({"status": "success", "changes": [], "message": "mine"});
    call(&mut story, 3, "notify_completion", notice);
    story.speaks(session("lead"));
    any(&mut story, 4);
    any(&mut story, 5);
    assert_eq!(story.told(4)["message"], json!("hook's"));
    assert_eq!(story.told(5)["message"], json!("mine"));
    assert_eq!(story.told(5)["turn"], json!(1));
}

#[test]
fn a_new_prompt_begins_the_next_turn() {
    let mut story = story();
    live(&mut story, 1, "w", 1, 1);
    story.speaks(worker("w-a", 1));
    hook(&mut story, 2, HookReport::PromptGiven);
    hook(&mut story, 3, ended("one"));
    worked_out(&mut story, 1);
    hook(&mut story, 4, HookReport::PromptGiven);
    let failed = HookReport::TurnFailed {
        message: "no model".into(),
    };
    hook(&mut story, 5, failed);
    worked_out(&mut story, 1);
    story.speaks(session("lead"));
    any(&mut story, 6);
    any(&mut story, 7);
    assert_eq!(story.told(6)["turn"], json!(1));
    assert_eq!(story.told(7)["turn"], json!(2));
    assert_eq!(story.told(7)["status"], json!("error"));
}

#[test]
fn two_turns_that_end_before_the_first_is_worked_out_are_told_in_order() {
    let mut story = story();
    live(&mut story, 1, "w", 1, 1);
    story.speaks(worker("w-a", 1));
    hook(&mut story, 2, ended("one"));
    hook(&mut story, 3, HookReport::PromptGiven);
    assert_eq!(
        hook(&mut story, 4, ended("two")),
        "commit 1, answer 4",
        "one at a time"
    );
    assert_eq!(worked_out(&mut story, 1), "work out 1, commit 3");
    assert_eq!(worked_out(&mut story, 1), "commit 3");
    story.speaks(session("lead"));
    any(&mut story, 5);
    any(&mut story, 6);
    assert_eq!(story.told(5)["message"], json!("one"));
    assert_eq!(story.told(6)["message"], json!("two"));
}

#[test]
fn an_end_without_a_word_is_told_from_how_it_ended() {
    for (exit, status, code, signal) in [
        (ExitStatus::Code(0), "success", json!(null), json!(null)),
        (ExitStatus::Code(3), "error", json!(3), json!(null)),
        (
            ExitStatus::Signal("SIGKILL".into()),
            "error",
            json!(null),
            json!("SIGKILL"),
        ),
    ] {
        let mut story = story();
        live(&mut story, 1, "w", 1, 1);
        let fact = PaneEvent::Ended {
            exit,
            cursor: view::start(),
            title: String::new(),
            alone: false,
            sweeps: true,
            lost_by_reboot: false,
        };
        let said = story.fact(1, fact);
        assert!(said.contains("work out 1"), "{said}");
        worked_out(&mut story, 1);
        any(&mut story, 2);
        let told = story.told(2);
        assert_eq!(told["status"], json!(status));
        assert_eq!(told["synthesized"], json!(true));
        assert_eq!(told["message"], json!("last line"));
        assert_eq!((&told["exit_code"], &told["signal"]), (&code, &signal));
    }
}

#[test]
fn an_end_behind_a_report_adds_nothing_and_one_in_a_new_turn_does() {
    let mut story = story();
    live(&mut story, 1, "a", 1, 1);
    live(&mut story, 2, "b", 2, 2);
    for (number, id, pane) in [(3, "a-a", 1), (4, "b-a", 2)] {
        story.speaks(worker(id, pane));
        hook(&mut story, number, ended("done"));
        worked_out(&mut story, pane);
    }
    hook(&mut story, 5, HookReport::PromptGiven);
    assert!(!story.fact(1, exited(0)).contains("work out"));
    assert!(story.fact(2, exited(1)).contains("work out 2"));
    worked_out(&mut story, 2);
    story.speaks(session("lead"));
    for number in [6, 7, 8] {
        any(&mut story, number);
    }
    assert_eq!(story.told(8)["worker_id"], json!("b-a"));
    assert_eq!(story.told(8)["turn"], json!(2));
    assert_eq!(any(&mut story, 9), "nothing for 9");
}

#[test]
fn the_late_notice_of_an_earlier_one_of_that_name_is_told_as_its_own() {
    let mut story = story();
    live(&mut story, 1, "w", 1, 1);
    story.fact(1, exited(0));
    worked_out(&mut story, 1);
    live(&mut story, 2, "w", 2, 2);
    story.speaks(worker("w-a", 1));
    let notice = || json!({"status": "success", "changes": [], "message": "late"});
    call(&mut story, 3, "notify_completion", notice());
    story.speaks(worker("w-a", 2));
    call(&mut story, 4, "notify_completion", notice());
    story.speaks(session("lead"));
    let mut instances = Vec::new();
    for number in [5, 6, 7] {
        any(&mut story, number);
        instances.push(story.told(number)["instance"].as_u64().unwrap());
    }
    assert_eq!(instances, [1, 1, 2]);
}

#[test]
fn a_notice_of_somebody_that_fugue_never_spawned_is_accepted() {
    let mut story = story();
    story.speaks(session("elsewhere"));
    assert_eq!(notify(&mut story, 1, "stranger"), "commit 2, answer 1");
    story.speaks(session("lead"));
    any(&mut story, 2);
    assert_eq!(story.told(2)["worker_id"], json!("stranger"));
    assert_eq!(story.told(2)["instance"], json!(0));
    assert_eq!(
        call(
            &mut story,
            3,
            "notify_completion",
            json!({"status": "success"})
        ),
        "refuse 3 InvalidArgument",
        "a lead that does not say whom it means"
    );
}

#[test]
fn a_long_last_message_is_cut_and_that_is_said() {
    let mut story = story();
    live(&mut story, 1, "w", 1, 1);
    story.speaks(worker("w-a", 1));
    hook(&mut story, 2, ended(&"é".repeat(20_000)));
    worked_out(&mut story, 1);
    story.speaks(session("lead"));
    any(&mut story, 3);
    let told = story.told(3);
    let kept = told["message"].as_str().unwrap().chars().count() as u64;
    let omitted = told["omitted_chars"].as_u64().unwrap();
    assert!(kept <= 8_100 && omitted >= 12_000 - 100, "{kept} {omitted}");
}

#[test]
fn the_hook_of_an_agent_that_was_not_spawned_is_told_to_the_session_that_it_names() {
    let mut story = story();
    assert_eq!(hook(&mut story, 1, ended("x")), "answer 1");
    story.speaks(worker("stranger", 9));
    hook(&mut story, 2, HookReport::PromptGiven);
    hook(&mut story, 3, ended("it is done"));
    story.speaks(session("lead"));
    any(&mut story, 4);
    let told = story.told(4);
    let told = [&told["worker_id"], &told["instance"], &told["message"]];
    assert_eq!(told, [&json!("stranger"), &json!(0), &json!("it is done")]);
    took(&mut story, 5, 1);
    assert_eq!(any(&mut story, 6), "nothing for 6");
}

#[test]
fn a_run_that_nobody_waits_for_any_more_is_told_and_one_that_is_waited_for_is_not() {
    let mut story = story();
    let run = |id: &str| {
        request(
            "fugue_run_parallel",
            json!({"commands": [{"command": "true"}], "run_id": id}),
        )
    };
    let gone = || PaneEvent::Ended {
        exit: ExitStatus::Code(0),
        cursor: view::start(),
        title: String::new(),
        alone: true,
        sweeps: false,
        lost_by_reboot: false,
    };
    story.ask(1, 1, "", run("waited"));
    story.fact(1, opened());
    story.fact(1, gone());
    assert_eq!(took(&mut story, 1, 1), "commit 1, answer 1");
    assert_eq!(any(&mut story, 2), "nothing for 2");
    story.ask(3, 3, "", run("left"));
    story.fact(2, opened());
    cancel(&mut story, 3);
    story.fact(2, gone());
    assert_eq!(
        wait(&mut story, 4, json!({"types": ["run_complete"]})),
        "hand 4 e2"
    );
    assert_eq!(story.told(4)["run_id"], json!("left"));
    assert_eq!(story.told(4)["status"], json!("completed"));
    cancel(&mut story, 4);
    let pick_up = request("fugue_wait", json!({"run_id": "left"}));
    let picked = story.ask(5, 5, "", pick_up);
    assert!(picked.contains("result 5 completed"), "{picked}");
    assert_eq!(any(&mut story, 6), "nothing for 6", "old news by then");
}
