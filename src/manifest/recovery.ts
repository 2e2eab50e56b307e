import { omitUndefined } from '../core/model/omit-undefined.ts';
import { presets, type PresetName } from '../core/policy/presets.ts';
import { alternativesOf, type CapacitySpec, type RecoverySpec, type RecoveryRule } from '../core/model/spec.ts';
import { minute, second } from '../core/model/time.ts';
import type { Path } from '../schema/kinds.ts';
import type { Section } from './keys.ts';
import type { Sections } from './sections.ts';

/** A looping job runs for weeks, so its failure budget is large. A failed setup costs money, so its budget is small. */
export function buildRecoverySpec(
  sections: Sections,
  loop: boolean | 'failures' | undefined,
  capacity: CapacitySpec | undefined,
): RecoverySpec {
  const section: Partial<Section<'recovery'>> = sections.read('recovery') ?? {};
  const presetAt = sections.has(['recovery', 'preset']) ? ['recovery', 'preset'] : ['recovery'];
  const refuse = sections.problem;
  const named = section.preset;
  const alternatives = capacity?.kind === 'tpu' ? alternativesOf(capacity) : [];
  const isRevocable = alternatives.some(({ pricing }) => pricing !== 'ondemand');
  // An unreadable capacity has its own problem; do not report a second one.
  const hasOtherZone = capacity === undefined || new Set(alternatives.map(({ zone }) => zone)).size > 1;
  const loopPreset: PresetName | undefined =
    loop === true ? 'loop: true' : loop === 'failures' ? 'loop: failures' : undefined;

  const preset = named ?? loopPreset ?? (isRevocable ? 'pre' : 'pass');
  if (loopPreset !== undefined && loopPreset !== preset)
    refuse(presetAt, `is ${preset}, but job.loop means ${loopPreset}; remove one of them`);

  const rules = section.rules?.flatMap((rule, index): RecoveryRule[] => {
    const at = (key: string): Path => ['recovery', 'rules', index, key];
    if (rule.log !== undefined && rule.evidence !== undefined)
      refuse(at('log'), 'cannot be combined with evidence; remove one of them');
    if (rule.delay !== undefined && rule.delay_max !== undefined && rule.delay_max < rule.delay)
      refuse(at('delay_max'), 'is shorter than the delay of this rule');
    // The table of keys has reported the missing key; the other keys of the rule are checked above.
    if (rule.reason === undefined || rule.then === undefined) return [];
    const on = rule.on ?? (rule.reason === 'preempted' ? 'new' : 'same');
    if (on === 'same' && rule.reason === 'preempted' && rule.then !== 'fail') {
      refuse(at('on'), 'must be new: a preempted TPU no longer exists');
    }
    const continues = rule.then === 'resume' || rule.then === 'rerun';
    for (const key of ['limit', 'delay', 'delay_max', 'avoid_zone'] as const) {
      if (!continues && rule[key] !== undefined) refuse(at(key), `has no effect with then: ${rule.then}`);
    }
    if (continues && rule.avoid_zone === true) {
      if (on !== 'new') refuse(at('avoid_zone'), 'requires on: new');
      else if (!hasOtherZone) refuse(at('avoid_zone'), 'requires tpu.alternatives with another zone');
    }
    const pattern = rule.evidence ?? rule.log;
    return [
      {
        reason: rule.reason,
        ...omitUndefined({ evidence: pattern, exitCodes: rule.exit_code, worker: rule.worker }),
        answer: { then: rule.then, on },
        ...(rule.avoid_zone === true && { avoidZone: true as const }),
        ...omitUndefined({ limit: rule.limit, delayMs: rule.delay, delayMaxMs: rule.delay_max }),
      },
    ];
  });

  const customPatterns = [...new Set(section.rules?.flatMap(({ log }) => (log === undefined ? [] : [log])))];
  const isLoop = preset.startsWith('loop');
  const delay = section.delay ?? 10 * second;
  if (section.delay_max !== undefined && section.delay_max < delay)
    refuse(['recovery', 'delay_max'], 'is shorter than recovery.delay');
  return {
    preset: rules === undefined || rules.length === 0 ? preset : `${preset} and rules of its own`,
    rules: [...(rules ?? []), ...presets[preset]],
    ...(customPatterns.length === 0 ? {} : { customPatterns }),
    budget: {
      preemptions: section.budget?.preemptions ?? 1000,
      failures: section.budget?.failures ?? (isLoop ? 1000 : 3),
      setupFailures: section.budget?.setup_failures ?? 3,
    },
    delayMs: delay,
    delayMaxMs: Math.max(delay, section.delay_max ?? 10 * minute),
    unreachableGraceMs: section.unreachable_grace ?? 3 * minute,
  };
}
