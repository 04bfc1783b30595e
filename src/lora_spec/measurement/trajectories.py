"""Record greedy trajectories with their overrun; turn a drafter's agreement with them into counts at every depth."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from lora_spec.engines import AdapterRef, Completion, Engine, GenerationRequest, ReplayedSteps, Replayer, Trajectory
from lora_spec.errors import MeasurementError
from lora_spec.measurement.acceptance import Prompt
from lora_spec.records import Arm, PromptRecord


def record_trajectories(
    engine: Engine,
    prompts: Sequence[Prompt],
    *,
    adapter: AdapterRef | None,
    max_tokens: int,
    num_overrun_tokens: int,
) -> list[Trajectory]:
    """Return the target's greedy trajectories, generated at depth 0, each continued past its end.

    Parameters
    ----------
    adapter
        Served adapter, or None for the engine's own weights (base, or an adapter merged into them).
    num_overrun_tokens
        The largest depth that will be replayed: the last verify step looks that far.

    Raises
    ------
    MeasurementError
        A prompt was cut or a request failed.
    """
    requests = [GenerationRequest(p.prompt_id, p.token_ids, max_tokens, adapter) for p in prompts]
    outputs = _without_drafts(engine, requests)
    for prompt, output in zip(prompts, outputs, strict=True):
        _check_completion(output, prompt.token_ids)
    texts = [(output.output_token_ids, output.finish_reason) for output in outputs]
    return continue_past_end(engine, prompts, texts, adapter=adapter, num_overrun_tokens=num_overrun_tokens)


def continue_past_end(
    engine: Engine,
    prompts: Sequence[Prompt],
    texts: Sequence[tuple[tuple[int, ...], str]],
    *,
    adapter: AdapterRef | None,
    num_overrun_tokens: int,
) -> list[Trajectory]:
    """Return recorded texts as trajectories, each with what the target would say after its end token or its cap.

    Parameters
    ----------
    texts
        ``(output_token_ids, finish_reason)`` per prompt.

    Raises
    ------
    MeasurementError
        The engine had no room for the tokens past the end.
    """
    requests = [
        GenerationRequest(prompt.prompt_id, prompt.token_ids + text, num_overrun_tokens, adapter, ignore_eos=True)
        for prompt, (text, _) in zip(prompts, texts, strict=True)
    ]
    overruns = _without_drafts(engine, requests)
    for request, overrun in zip(requests, overruns, strict=True):
        _check_completion(overrun, request.prompt_token_ids)
        if len(overrun.output_token_ids) != num_overrun_tokens:
            raise MeasurementError(
                f"prompt {overrun.request_id}: {len(overrun.output_token_ids)} of {num_overrun_tokens} tokens past "
                "its end: the engine has no room; raise max_model_len"
            )
    return [
        Trajectory(prompt.prompt_id, prompt.token_ids, text, overrun.output_token_ids, reason, adapter)
        for prompt, (text, reason), overrun in zip(prompts, texts, overruns, strict=True)
    ]


def _without_drafts(engine: Engine, requests: Sequence[GenerationRequest]) -> list[Completion]:
    engine.set_depth(0)
    try:
        return engine.generate(requests)
    finally:
        engine.set_depth(None)


def _check_completion(completion: Completion, prompt_token_ids: Sequence[int]) -> None:
    if completion.num_prompt_tokens != len(prompt_token_ids):
        raise MeasurementError(
            f"prompt {completion.request_id}: the engine cut the prompt; raise max_model_len or shorten it"
        )
    if completion.finish_reason not in ("stop", "length"):
        raise MeasurementError(
            f"prompt {completion.request_id} ended with {completion.finish_reason!r}: the request failed; measure again"
        )


def replay_arm(
    replayer: Replayer,
    trajectories: Sequence[Trajectory],
    *,
    prompt_set: str,
    arm: Arm,
    adapter_name: str | None,
    depths: Sequence[int],
) -> list[PromptRecord]:
    """Return one record per trajectory and depth K, depths innermost."""
    return [
        replace(record_of(trajectory, steps), prompt_set=prompt_set, arm=arm, adapter=adapter_name)
        for trajectory, by_depth in zip(trajectories, replayer.replay(trajectories, depths), strict=True)
        for steps in by_depth
    ]


def record_of(trajectory: Trajectory, steps: ReplayedSteps) -> PromptRecord:
    """Return the record of one replayed text, of the base arm and no prompt set until the caller says otherwise."""
    return PromptRecord(
        prompt_id=trajectory.prompt_id,
        prompt_set="",
        arm="base",
        adapter=None,
        counts=steps.counts(),
        num_prompt_tokens=len(trajectory.prompt_token_ids),
        output_token_ids=trajectory.output_token_ids,
        finish_reason=trajectory.finish_reason,
        num_steps=len(steps.drafted_per_step),
    )


def replay_acceptance(
    replayer: Replayer,
    trajectories_by_set: Mapping[str, tuple[Sequence[Trajectory], Sequence[Trajectory]]],
    *,
    adapter_name: str,
    depths: Sequence[int],
) -> list[PromptRecord]:
    """Return the records of both arms of every prompt set.

    Parameters
    ----------
    trajectories_by_set
        ``(base, adapted)`` trajectories over the same prompts, by prompt set.
    """
    records = []
    for prompt_set, (base, adapted) in trajectories_by_set.items():
        if [t.prompt_id for t in base] != [t.prompt_id for t in adapted]:
            raise MeasurementError(f"prompt set {prompt_set!r}: the arms hold different prompts; record both again")
        records += replay_arm(
            replayer, base, prompt_set=prompt_set, arm="base", adapter_name=None, depths=depths
        ) + replay_arm(
            replayer, adapted, prompt_set=prompt_set, arm="adapted", adapter_name=adapter_name, depths=depths
        )
    return records
