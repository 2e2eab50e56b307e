// Preemption: how long after the cloud has taken a TPU away the controller lets go of it, which is the first step of a
// recovery, when it looks after a thousand jobs. The controller, the rules and the store are the real ones, in the
// simulator's world: the seconds are pretended and do not depend on this machine, which only says whether it keeps up.
//
// Two ways to be hard: the lines to the lost machines say nothing, so that only the look at the cloud tells; and all
// thousand are taken in the same moment.

import { minute, second } from '../src/core/time.ts';
import { loseMachine } from '../sim/world.ts';
import { openPretended } from './pretended.ts';
import type { Result } from './result.ts';

const count = 1_000;
const mostMs = 30_000;

interface Case {
  readonly what: string;
  /** A line to a lost machine drops, or just falls silent. */
  readonly linesDrop: boolean;
  /** Over how long a time the thousand are taken. */
  readonly within: number;
}

const cases: readonly Case[] = [
  { what: 'one after another, lines drop', linesDrop: true, within: 20 * minute },
  { what: 'one after another, lines fall silent', linesDrop: false, within: 20 * minute },
  { what: 'all at once, lines drop', linesDrop: true, within: 0 },
  { what: 'all at once, lines fall silent', linesDrop: false, within: 0 },
];

export async function measurePreemption(): Promise<readonly Result[]> {
  const results: Result[] = [];
  for (const one of cases) {
    const began = performance.now();
    const waits = (await play(one)).toSorted((a, b) => a - b);
    const at = (share: number): number => waits[Math.floor((waits.length - 1) * share)] ?? Number.NaN;
    const seconds = (ms: number): string => (ms / second).toFixed(1);
    results.push({
      what: `preemption to recovery, 1,000 jobs, 99th percentile: ${one.what}`,
      measured: `${seconds(at(0.99))} s`,
      budget: `${mostMs / second} s`,
      beside: `median ${seconds(at(0.5))} s, longest ${seconds(at(1))} s; played in ${seconds(performance.now() - began)} real s`,
      isKept: at(0.99) <= mostMs,
    });
  }
  return results;
}

/** Plays one world; the waits in pretended milliseconds. */
async function play({ linesDrop, within }: Case): Promise<readonly number[]> {
  const { timeline, world, chance, letGo, close } = await openPretended(count, { linesDrop });
  const taken = world.machines.filter((machine) => machine.state === 'ready' && machine !== world.here);
  if (taken.length !== count) throw new Error(`${taken.length} machines are ready, not ${count}`);
  const fate = chance.fork('fate');
  const lostAt = new Map<string, number>();
  for (const machine of taken) {
    timeline.after(within === 0 ? 0 : fate.between(0, within), () => {
      lostAt.set(machine.name, timeline.now);
      loseMachine(world, machine, 'preempted');
    });
  }
  const isAllLetGo = (): boolean => taken.every((machine) => letGo.has(machine.name));
  await timeline.play(timeline.now + within + 10 * minute, isAllLetGo);
  await close();
  return taken.map(({ name }) => (letGo.get(name) ?? Infinity) - (lostAt.get(name) ?? 0));
}

const counts = [1, 50, 1_000];
const minutes = 10;
/** Looks of all jobs come together on a beat of five seconds, however many there are; a few of a beginning come on top. */
const listsMost = 15;

/**
 * Lists: how often the cloud is asked what there is in a zone, with one job that runs there and with many. The questions are counted
 * in the same world, so the numbers are the same on every machine.
 */
export async function measureLists(): Promise<readonly Result[]> {
  const results: Result[] = [];
  for (const count of counts) {
    const { timeline, looks, close } = await openPretended(count, { linesDrop: true });
    const before = looks();
    await timeline.play(timeline.now + minutes * minute, () => false);
    const each = (looks() - before) / minutes;
    await close();
    results.push({
      what: `lists of a zone in a minute, ${count.toLocaleString('en')} running jobs there`,
      measured: each.toFixed(1),
      budget: String(listsMost),
      beside: `${minutes} pretended minutes; one by one they would be ${count * 3}`,
      isKept: each <= listsMost,
    });
  }
  return results;
}
