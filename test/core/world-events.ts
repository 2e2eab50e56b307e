// Storm: one job in a small world with random events; then calm. The invariants are checked after every pass, and also
// against the world itself.

import { whyOf } from '../../src/app/why.ts';
import { applyCommand } from '../../src/core/decide/commands.ts';
import { checkAction } from '../../src/core/policy/permissions.ts';
import type { Verb } from '../../src/core/decide/commands.ts';
import { historyMismatches } from '../../sim/history-replay.ts';
import { heldAllocations, lastAllocation, mayOutliveRemoval } from '../../src/core/model/job.ts';
import type { Job } from '../../src/core/model/job.ts';
import { violationsOf } from '../../sim/pass-invariants.ts';
import { phaseOf } from '../../src/core/decide/phase.ts';
import type { Event } from '../../src/core/model/event.ts';
import type { JobSpec } from '../../src/core/model/spec.ts';
import { known, unknown } from '../../src/core/model/observation.ts';
import { budgetsOf, type Budget } from '../../src/core/decide/spending.ts';
import { day, hour, second, type Instant } from '../../src/core/model/time.ts';
import { aMember } from '../support/builders.ts';
import { World } from './world.ts';

/** One event in the world. */
export type WorldEvent =
  | { readonly kind: 'wait'; readonly seconds: number }
  | { readonly kind: 'exit'; readonly worker: number; readonly code: number }
  | { readonly kind: 'vanish' | 'disconnect'; readonly worker: number }
  | { readonly kind: 'command'; readonly verb: Verb; readonly more: boolean }
  | { readonly kind: 'refuse'; readonly error: 'stockout' | 'quota' | 'internal' | 'permission' | null }
  | { readonly kind: 'steps'; readonly works: boolean }
  /** The spent part of a budget of the owner; null: it is unknown. */
  | { readonly kind: 'spend'; readonly share: number | null }
  | {
      readonly kind:
        | 'preempt'
        | 'cloud_outage'
        | 'omit'
        | 'crash'
        | 'lose_reply'
        | 'repeat_reply'
        | 'ignore_stop'
        | 'interrupt';
    };

/** The broken invariants of that walk. */
export function violationsAfter(job: JobSpec, events: readonly WorldEvent[]): readonly string[] {
  const world = new World(job);
  const violations: string[] = [];
  world.onPass = (before, observation, decision, now) => {
    violations.push(
      ...violationsOf({ before, observation, decision, now }),
      ...historyMismatches(world.events, world.job),
      ...badAnswers(world.job, now, world.events, budgetsOf(world.job, observation.ownerSpending, now)),
    );
  };
  const watch = (): void => void violations.push(...world.violations());
  // A job that runs forever by its own rule, or waits for its owner, is at rest too.
  const isConverged = (): boolean => isFinishedForGood(world.job) || phaseOf(world.job) === 'running';
  const mayHold = (): boolean => world.job.finish === null || world.job.removed || world.job.desired === 'stopped';
  const isHolding = (): boolean => !mayHold() && heldAllocations(world.job).length > 0;
  try {
    for (const one of events) {
      applyEvent(world, one);
      for (let count = 0; count < 3; count += 1) {
        world.pass();
        watch();
        world.performActions();
        watch();
      }
      if (violations.length > 0) return violations;
    }
    world.clearFaults();
    world.runUntil(() => isConverged() && !isHolding(), 4 * hour);
  } catch (error) {
    return [...violations, String(error)];
  }
  watch();
  if (!isConverged()) violations.push(`10 convergence: hours after the storm the job is ${phaseOf(world.job)}`);
  if (isHolding()) violations.push('6 finished jobs hold nothing: hours later it still holds capacity');
  return violations;
}

/** `why` must answer in every state, completely, and name the verdict of a finished job. */
function badAnswers(job: Job, now: Instant, events: readonly Event[], budgets: readonly Budget[]): readonly string[] {
  const { message, evidence, rule, next } = whyOf(job, now, { events, budgets });
  const text = [message, evidence, rule, next].filter((one) => one !== null).join(' ');
  const isIncomplete = /undefined|NaN|null|Invalid|\[object/.test(text);
  const verdict = job.removed ? null : (job.finish?.verdict ?? null);
  const isWrong = verdict !== null && !message.includes(verdict);
  return isIncomplete || isWrong ? [`why answers: ${text}`] : [];
}

/** Finished; or removed, with nothing left to do or no worker that answers. */
function isFinishedForGood(job: Job): boolean {
  if (job.finish !== null) return true;
  return job.removed && (!mayOutliveRemoval(job) || lastAllocation(job)?.unreachableAt !== null);
}

function applyEvent(world: World, event: WorldEvent): void {
  const { job } = world;
  const attempt = job.attempts.length;
  const node = world.nodes.get(job.spec.capacity.ownership === 'persistent' ? 1 : job.allocations.length);
  switch (event.kind) {
    case 'wait':
      world.now += event.seconds * second;
      return;
    case 'exit':
    case 'vanish': {
      const host = job.spec.command.runsOn === 'controller' ? world.controllerHost : node?.workers[event.worker];
      const run = host?.runs.find((candidate) => candidate.attempt === attempt);
      if (run !== undefined) run.ended ??= event.kind === 'exit' ? { exitCode: event.code, at: world.now } : 'vanished';
      return;
    }
    case 'disconnect': {
      const host = node?.workers[event.worker];
      if (host !== undefined) host.isAnswering = !host.isAnswering;
      return;
    }
    case 'command': {
      // Each command with its one option: release, commandOnly, force, budgetUsd.
      const { more } = event;
      const options = { by: 'alice', release: more, commandOnly: more, force: more, ...(more && { budgetUsd: 5 }) };
      if (checkAction(job, event.verb, aMember('alice'), options).answer !== 'allow') return;
      const change = applyCommand(job, event.verb, options, world.now);
      world.job = change.job;
      world.events.push(...change.events);
      return;
    }
    case 'refuse':
      world.refusal =
        event.error === null
          ? null
          : { kind: 'failed', evidence: { message: 'no' }, error: { kind: event.error, message: 'no', raw: '' } };
      return;
    case 'steps':
      world.stepResult = event.works ? { kind: 'done' } : { kind: 'failed', evidence: { message: 'no' } };
      return;
    case 'spend': {
      if (job.spec.capacity.ownership === 'persistent') return;
      const ownerBudget = {
        grant: 'all TPUs',
        period: 'day',
        endsAt: (Math.floor(world.now / day) + 1) * day,
      } as const;
      const spending = { spentUsd: event.share ?? 0, budgetUsd: 1, rateUsd: 0.2, ownerBudget };
      world.ownerSpending = event.share === null ? unknown('busy', world.now) : known([spending], world.now);
      return;
    }
    case 'preempt':
      if (node !== undefined && job.spec.capacity.kind === 'tpu')
        Object.assign(node, { state: 'lost', detail: 'PREEMPTED', cause: 'preempted' });
      return;
    case 'interrupt':
      if (node?.state === 'ready') Object.assign(node, { state: 'interrupted', detail: 'REPAIRING' });
      else if (node?.state === 'interrupted') Object.assign(node, { state: 'ready', detail: 'READY' });
      return;
    case 'cloud_outage':
      world.isCloudUp = !world.isCloudUp;
      return;
    case 'omit':
      world.omitNext = true;
      return;
    case 'crash':
      // Committed, and killed before it acted.
      world.pass();
      return;
    case 'lose_reply':
      world.pass();
      world.performActions();
      world.outcomes = world.outcomes.map((outcome) => ({
        ...outcome,
        result: { kind: 'unclear', evidence: { message: 'lost' } },
      }));
      return;
    case 'repeat_reply':
      world.outcomes.push(...world.pastOutcomes.slice(-40));
      return;
    case 'ignore_stop':
      world.ignoresStop = !world.ignoresStop;
      return;
  }
}
