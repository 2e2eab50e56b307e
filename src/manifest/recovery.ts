// Recovery: from `recovery:` and `job.loop` to rules, budgets and waits.

import { didYouMean } from '../catalogue/did-you-mean.ts';
import { patterns } from '../core/patterns.ts';
import { presets, usualSetupFailures } from '../core/recover.ts';
import type { PresetName } from '../core/recover.ts';
import type { RecoverySpec, Rule } from '../core/spec.ts';
import { minute, second } from '../core/time.ts';
import type { RecoverySection } from './keys.ts';

/** Says what is wrong at a key; `path` is below the manifest. */
type Refuse = (path: readonly (string | number)[], message: string, suggestion?: string) => void;

/**
 * The rules of a job. `isRevocable`: the cloud may take the capacity away, which decides the default. A job that loops is meant
 * to go on for weeks, so its budget of failures is large as well. A setup that fails again and again costs money and does no
 * work, so its budget is as small there as everywhere.
 */
export function recoverySpec(given: {
  readonly recovery: string | RecoverySection | undefined;
  readonly loop: boolean | 'failures' | undefined;
  readonly isRevocable: boolean;
  /** Whether there is a zone to go to when one is to be avoided. */
  readonly hasOtherZone: boolean;
  readonly refuse: Refuse;
}): RecoverySpec {
  const { recovery, loop, isRevocable, hasOtherZone, refuse } = given;
  const section: Partial<RecoverySection> = typeof recovery === 'string' ? {} : (recovery ?? {});
  const named = typeof recovery === 'string' ? recovery : section.preset;
  const namedAt = typeof recovery === 'string' ? ['recovery'] : ['recovery', 'preset'];
  const looping: PresetName | undefined =
    loop === true ? 'loop: true' : loop === 'failures' ? 'loop: failures' : undefined;

  let preset: PresetName = looping ?? (isRevocable ? 'pre' : 'pass');
  if (named !== undefined) {
    const found = presetNamed(named);
    if (found === undefined) {
      const names = Object.keys(presets);
      refuse(namedAt, `"${named}" is no preset; there are ${names.join(', ')}`, didYouMean(named, names));
    } else if (looping !== undefined && looping !== found) {
      refuse(namedAt, `asks for ${found} and job.loop for ${looping}; keep one of them`);
    } else preset = found;
  }

  const rules = section.rules?.flatMap((rule, index): Rule[] => {
    const names = patterns.map(({ name }) => name);
    const evidence = names.find((name) => name === rule.evidence);
    if (rule.evidence !== undefined && evidence === undefined) {
      const message = `"${rule.evidence}" is no pattern; there are ${names.join(', ')}`;
      refuse(['recovery', 'rules', index, 'evidence'], message, didYouMean(rule.evidence, names));
    }
    const at = (key: string): (string | number)[] => ['recovery', 'rules', index, key];
    if (rule.log !== undefined && rule.evidence !== undefined)
      refuse(at('log'), 'stands beside evidence; keep one of them');
    if (rule.log !== undefined && rule.log.replaceAll('*', '').trim() === '')
      refuse(at('log'), 'would fit every line; write a text that the line must have');
    if (rule.delay !== undefined && rule.delay_max !== undefined && rule.delay_max < rule.delay)
      refuse(at('delay_max'), 'is less than the delay of this rule');
    // Both keys have been reported, and the rest of the rule is checked above.
    if (rule.reason === undefined || rule.then === undefined) return [];
    const on = rule.on ?? (rule.reason === 'preempted' ? 'new' : 'same');
    if (on === 'same' && rule.reason === 'preempted' && rule.then !== 'fail') {
      refuse(['recovery', 'rules', index, 'on'], 'a preempted TPU is gone; only a new one can follow');
    }
    const goesOn = rule.then === 'resume' || rule.then === 'rerun';
    for (const key of ['limit', 'delay', 'delay_max', 'avoid_zone'] as const) {
      if (!goesOn && rule[key] !== undefined) refuse(at(key), `has no effect with then: ${rule.then}`);
    }
    if (goesOn && rule.avoid_zone === true) {
      if (on !== 'new') refuse(at('avoid_zone'), 'needs on: new; the same TPU stays in its zone');
      else if (!hasOtherZone) refuse(at('avoid_zone'), 'needs tpu.alternatives with another zone to go to');
    }
    const sought = evidence ?? rule.log;
    const codes = typeof rule.exit_code === 'number' ? [rule.exit_code] : rule.exit_code;
    return [
      {
        reason: rule.reason,
        ...(sought === undefined ? {} : { evidence: sought }),
        ...(codes === undefined ? {} : { exitCodes: codes }),
        ...(rule.worker === undefined ? {} : { worker: rule.worker }),
        answer: { then: rule.then, on },
        ...(rule.avoid_zone === true && { avoidZone: true as const }),
        ...(rule.limit === undefined ? {} : { limit: rule.limit }),
        ...(rule.delay === undefined ? {} : { delay: rule.delay }),
        ...(rule.delay_max === undefined ? {} : { delayMax: rule.delay_max }),
      },
    ];
  });

  const texts = [...new Set(section.rules?.flatMap(({ log }) => (log === undefined ? [] : [log])))];
  const isLoop = preset.startsWith('loop');
  const delay = section.delay ?? 10 * second;
  if (section.delay_max !== undefined && section.delay_max < delay)
    refuse(['recovery', 'delay_max'], 'is less than recovery.delay');
  return {
    preset: rules === undefined || rules.length === 0 ? preset : `${preset} and rules of its own`,
    rules: [...(rules ?? []), ...presets[preset]],
    ...(texts.length === 0 ? {} : { texts }),
    budget: {
      preemptions: section.budget?.preemptions ?? 1000,
      failures: section.budget?.failures ?? (isLoop ? 1000 : 3),
      setupFailures: section.budget?.setup_failures ?? usualSetupFailures,
    },
    delay,
    delayMax: Math.max(delay, section.delay_max ?? 10 * minute),
    unreachableGrace: section.unreachable_grace ?? 3 * minute,
  };
}

function presetNamed(name: string): PresetName | undefined {
  return (Object.keys(presets) as PresetName[]).find((one) => one === name);
}
