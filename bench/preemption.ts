// Preemption: time from the end of a TPU in the cloud until the controller releases it, with a thousand jobs.
// Controller, rules and store are real and run in the simulator, so the seconds are equal on every machine. Two cases
// are difficult: connections that stay silent, so that only the cloud's list shows the loss; and a thousand preemptions
// at once.

import { minute, second } from '../src/core/model/time.ts';
import { loseMachine } from '../sim/world.ts';
import { openSimulatedJobs } from './simulated-jobs.ts';
import type { Result } from './result.ts';

const count = 1_000;
const maxMs = 30_000;

interface Case {
  readonly name: string;
  /** True when connections to a lost machine close; false when they only become silent. */
  readonly linesDrop: boolean;
  /** Period in which all TPUs are preempted. */
  readonly within: number;
}

const cases: readonly Case[] = [
  { name: 'one after another, connections close', linesDrop: true, within: 20 * minute },
  { name: 'one after another, connections become silent', linesDrop: false, within: 20 * minute },
  { name: 'all at once, connections close', linesDrop: true, within: 0 },
  { name: 'all at once, connections become silent', linesDrop: false, within: 0 },
];

export async function measurePreemption(): Promise<readonly Result[]> {
  const results: Result[] = [];
  for (const one of cases) {
    const began = performance.now();
    const waits = (await simulateLosses(one)).toSorted((a, b) => a - b);
    const at = (share: number): number => waits[Math.floor((waits.length - 1) * share)] ?? Number.NaN;
    const seconds = (ms: number): string => (ms / second).toFixed(1);
    results.push({
      name: `preemption to recovery, 1,000 jobs, 99th percentile: ${one.name}`,
      measured: `${seconds(at(0.99))} s`,
      budget: `${maxMs / second} s`,
      comparison: `median ${seconds(at(0.5))} s, longest ${seconds(at(1))} s; simulated in ${seconds(performance.now() - began)} real s`,
      isWithinBudget: at(0.99) <= maxMs,
    });
  }
  return results;
}

/** Returns the waits in simulated milliseconds. */
async function simulateLosses({ linesDrop, within }: Case): Promise<readonly number[]> {
  const { timeline, world, chance, releasedAt, close } = await openSimulatedJobs(count, { linesDrop });
  const preempted = world.machines.filter(
    (machine) => machine.state === 'ready' && machine !== world.controllerMachine,
  );
  if (preempted.length !== count) throw new Error(`${preempted.length} machines are ready, not ${count}`);
  const lossChance = chance.fork('loss');
  const lostAt = new Map<string, number>();
  for (const machine of preempted) {
    timeline.after(within === 0 ? 0 : lossChance.between(0, within), () => {
      lostAt.set(machine.name, timeline.now);
      loseMachine(world, machine, 'preempted');
    });
  }
  const areAllReleased = (): boolean => preempted.every((machine) => releasedAt.has(machine.name));
  await timeline.run(timeline.now + within + 10 * minute, areAllReleased);
  await close();
  return preempted.map(({ name }) => (releasedAt.get(name) ?? Infinity) - (lostAt.get(name) ?? 0));
}

const counts = [1, 50, 1_000];
const minutes = 10;
/** Checks of all jobs share one list every five seconds; a starting job adds a few. */
const maxLists = 15;

/** Number of list requests to the cloud for one zone. Counted in the simulator, so equal on every machine. */
export async function measureLists(): Promise<readonly Result[]> {
  const results: Result[] = [];
  for (const count of counts) {
    const { timeline, listCount, close } = await openSimulatedJobs(count, { linesDrop: true });
    const before = listCount();
    await timeline.run(timeline.now + minutes * minute, () => false);
    const perMinute = (listCount() - before) / minutes;
    await close();
    results.push({
      name: `lists of a zone in a minute, ${count.toLocaleString('en')} running jobs there`,
      measured: perMinute.toFixed(1),
      budget: String(maxLists),
      comparison: `${minutes} simulated minutes; one by one they would be ${count * 3}`,
      isWithinBudget: perMinute <= maxLists,
    });
  }
  return results;
}
