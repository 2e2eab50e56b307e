// Storm: one job in a small world, to which things happen; then calm. The invariants are asked after every pass, and the
// world itself is asked what the record cannot know.

import { ask, jobCan } from '../../src/core/commands.ts';
import type { Verb } from '../../src/core/commands.ts';
import { historyTellsTheState } from '../../sim/pass-history.ts';
import { heldAllocations, lastAllocation, outlivesRemoval } from '../../src/core/job.ts';
import type { Job } from '../../src/core/job.ts';
import { broken } from '../../sim/pass-laws.ts';
import { phaseOf } from '../../src/core/phase.ts';
import type { JobSpec } from '../../src/core/spec.ts';
import { hour, second } from '../../src/core/time.ts';
import { World } from './world.ts';

/** One thing that happens to the world. */
export type Happening =
  | { readonly kind: 'wait'; readonly seconds: number }
  | { readonly kind: 'exit'; readonly worker: number; readonly code: number }
  | { readonly kind: 'vanish' | 'silence'; readonly worker: number }
  | { readonly kind: 'ask'; readonly verb: Verb; readonly more: boolean }
  | { readonly kind: 'refuse'; readonly error: 'stockout' | 'quota' | 'internal' | 'permission' | null }
  | { readonly kind: 'steps'; readonly works: boolean }
  | {
      readonly kind: 'preempt' | 'cloud' | 'miss' | 'crash' | 'lose_reply' | 'repeat_reply' | 'stubborn' | 'interrupt';
    };

/** What went wrong in that story; empty when nothing did. */
export function tell(job: JobSpec, happenings: readonly Happening[]): readonly string[] {
  const world = new World(job);
  const faults: string[] = [];
  world.onPass = (before, observation, decision, now) => {
    faults.push(...broken({ before, observation, decision, now }), ...historyTellsTheState(world.events, world.job));
  };
  const watch = (): void => void faults.push(...world.faults());
  // What goes on for ever by its own rule, or waits for its owner, has come to where it belongs too.
  const isThere = (): boolean => isOver(world.job) || phaseOf(world.job) === 'running';
  const mayHold = (): boolean => world.job.settled === null || world.job.removed || world.job.desired === 'hold';
  const isHolding = (): boolean => !mayHold() && heldAllocations(world.job).length > 0;
  try {
    for (const one of happenings) {
      happen(world, one);
      for (let count = 0; count < 3; count += 1) {
        world.pass();
        watch();
        world.act();
        watch();
      }
      if (faults.length > 0) return faults;
    }
    world.calm();
    world.live(() => isThere() && !isHolding(), 4 * hour);
  } catch (error) {
    return [...faults, String(error)];
  }
  watch();
  if (!isThere()) faults.push(`10 convergence: hours after the storm the job is ${phaseOf(world.job)}`);
  if (isHolding()) faults.push('6 settled means empty: hours later it still holds capacity');
  return faults;
}

/** Settled; or off the list, with nothing left to do, or nobody left who answers. */
function isOver(job: Job): boolean {
  if (job.settled !== null) return true;
  return job.removed && (!outlivesRemoval(job) || lastAllocation(job)?.silentSince !== null);
}

function happen(world: World, one: Happening): void {
  const { job } = world;
  const attempt = job.attempts.length;
  const node = world.nodes.get(job.spec.capacity.ownership === 'standing' ? 1 : job.allocations.length);
  switch (one.kind) {
    case 'wait':
      world.now += one.seconds * second;
      return;
    case 'exit':
    case 'vanish': {
      const host = job.spec.command.place === 'here' ? world.here : node?.workers[one.worker];
      const run = host?.runs.find((candidate) => candidate.attempt === attempt);
      if (run !== undefined) run.ended ??= one.kind === 'exit' ? { exitCode: one.code, at: world.now } : 'vanished';
      return;
    }
    case 'silence': {
      const host = node?.workers[one.worker];
      if (host !== undefined) host.isAnswering = !host.isAnswering;
      return;
    }
    case 'ask': {
      // Each word has one thing that can be said with it: let go, just the command, off the list at once.
      const options = { by: 'alice', release: one.more, commandOnly: one.more, force: one.more };
      if (!jobCan(job, one.verb, 'alice', options).ok) return;
      const change = ask(job, one.verb, options, world.now);
      world.job = change.job;
      world.events.push(...change.events);
      return;
    }
    case 'refuse':
      world.refusal =
        one.error === null
          ? null
          : { kind: 'failed', evidence: { detail: 'no' }, error: { kind: one.error, message: 'no', raw: '' } };
      return;
    case 'steps':
      world.stepResult = one.works ? { kind: 'done' } : { kind: 'failed', evidence: { detail: 'no' } };
      return;
    case 'preempt':
      if (node !== undefined && job.spec.capacity.kind === 'tpu')
        Object.assign(node, { state: 'lost', detail: 'PREEMPTED', cause: 'preempted' });
      return;
    case 'interrupt':
      if (node?.state === 'ready') Object.assign(node, { state: 'interrupted', detail: 'REPAIRING' });
      else if (node?.state === 'interrupted') Object.assign(node, { state: 'ready', detail: 'READY' });
      return;
    case 'cloud':
      world.cloudAnswers = !world.cloudAnswers;
      return;
    case 'miss':
      world.missNext = true;
      return;
    case 'crash':
      // Committed, and killed before it acted.
      world.pass();
      return;
    case 'lose_reply':
      world.pass();
      world.act();
      world.outcomes = world.outcomes.map((outcome) => ({
        ...outcome,
        result: { kind: 'unclear', evidence: { detail: 'lost' } },
      }));
      return;
    case 'repeat_reply':
      world.outcomes.push(...world.replies.slice(-40));
      return;
    case 'stubborn':
      world.isStubborn = !world.isStubborn;
      return;
  }
}
