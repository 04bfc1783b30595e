"""Record greedy trajectories with their overrun; turn a drafter's agreement with them into counts at every depth."""

from collections.abc import Mapping, Sequence

from lora_spec.engines import AdapterRef, Completion, Engine, GenerationRequest, Replayer, Trajectory
from lora_spec.engines.verify_steps import accepted_per_step
from lora_spec.errors import MeasurementError
from lora_spec.measurement.acceptance import Prompt
from lora_spec.records import AcceptanceCounts, Arm, PromptRecord


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
    engine.set_depth(0)
    try:
        outputs = engine.generate([GenerationRequest(p.prompt_id, p.token_ids, max_tokens, adapter) for p in prompts])
        # One rule for both ends: what the target would say after the end token, and after the cap.
        overruns = engine.generate(
            [
                GenerationRequest(
                    p.prompt_id, p.token_ids + o.output_token_ids, num_overrun_tokens, adapter, ignore_eos=True
                )
                for p, o in zip(prompts, outputs, strict=True)
            ]
        )
    finally:
        engine.set_depth(None)
    for prompt, output, overrun in zip(prompts, outputs, overruns, strict=True):
        _check_completions(prompt, output, overrun, num_overrun_tokens)
    return [
        Trajectory(
            prompt_id=prompt.prompt_id,
            prompt_token_ids=prompt.token_ids,
            output_token_ids=output.output_token_ids,
            overrun_token_ids=overrun.output_token_ids,
            finish_reason=output.finish_reason,
            adapter=adapter,
        )
        for prompt, output, overrun in zip(prompts, outputs, overruns, strict=True)
    ]


def _check_completions(prompt: Prompt, output: Completion, overrun: Completion, num_overrun_tokens: int) -> None:
    expected = len(prompt.token_ids) + len(output.output_token_ids)
    if output.num_prompt_tokens != len(prompt.token_ids) or overrun.num_prompt_tokens != expected:
        raise MeasurementError(
            f"prompt {prompt.prompt_id}: the engine cut the prompt; raise max_model_len or shorten it"
        )
    if output.finish_reason not in ("stop", "length") or len(overrun.output_token_ids) != num_overrun_tokens:
        raise MeasurementError(
            f"prompt {prompt.prompt_id} ended with {output.finish_reason!r}, its overrun after "
            f"{len(overrun.output_token_ids)} of {num_overrun_tokens} tokens: the request failed; measure again"
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
    """Return one record per trajectory and depth K, depths innermost, from one drafter pass over each trajectory."""
    records = []
    for trajectory, matches in zip(trajectories, replayer.match_drafts(trajectories), strict=True):
        for depth in depths:
            accepted = accepted_per_step(matches, len(trajectory.output_token_ids), depth)
            records.append(
                PromptRecord(
                    prompt_id=trajectory.prompt_id,
                    prompt_set=prompt_set,
                    arm=arm,
                    adapter=adapter_name,
                    counts=AcceptanceCounts.from_accepted_per_step(accepted, depth),
                    num_prompt_tokens=len(trajectory.prompt_token_ids),
                    output_token_ids=trajectory.output_token_ids,
                    finish_reason=trajectory.finish_reason,
                )
            )
    return records


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
