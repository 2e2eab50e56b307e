// The people of a pretend lab, their TPUs, and what they want run on them.

import { hour, minute, second } from '../src/core/time.ts';
import type { Duration } from '../src/core/time.ts';
import { type LabUser } from '../src/lab/people.ts';
import { defaultAliases } from '../src/lab/names.ts';
import { defaultUserSettings } from '../src/lab/user-settings.ts';
import type { LabRule } from '../src/lab/run.ts';
import type { LabTpu } from '../src/lab/tpus.ts';
import type { Chance } from './chance.ts';
import { sureZone } from './jobs.ts';

/** How much life there is in a story. */
export interface LabSize {
  readonly users: number;
  readonly tpus: number;
  readonly jobs: number;
  /** How long people go on wanting things, and things go wrong. */
  readonly length: Duration;
}

/** Two days of a lab. */
export const twoDays: LabSize = { users: 8, tpus: 30, jobs: 200, length: 48 * hour };

/** An afternoon, for tests that are run all the time. */
export const anAfternoon: LabSize = { users: 3, tpus: 5, jobs: 20, length: 6 * hour };

const rules: readonly LabRule[] = ['pre', 'pass', 'reapply', 'rerun', 'resume'];

/**
 * The course of one attempt without interference. `early`: the script ends before it has reported where its log is. `grpc`: a
 * call between workers fails. `hangs`: one fails, and the program waits for ever. `masked`: one fails, and the script exits with
 * 0 nevertheless, as scripts of the older `tpu` do. `fails`: the program has a mistake. `short`: the program succeeds and nothing
 * reports it. `unasked`: only its log reports the success, because the script does not call `finish-job`.
 */
export type LabFortune = 'succeeds' | 'unasked' | 'grpc' | 'hangs' | 'masked' | 'fails' | 'early' | 'short';

export interface LabNature {
  /** One for each attempt; the last stands for all that follow. */
  readonly fortunes: readonly LabFortune[];
  /** How long the program takes. */
  readonly length: Duration;
  /** Whether it goes on on the workers when the line from this machine is cut. */
  readonly goesOn: boolean;
}

/** The wish of a user at that time. */
export interface LabWish {
  readonly at: number;
  readonly user: string;
  /** As `rule=` says; null: what the TPU's pricing wants. */
  readonly rule: LabRule | null;
  readonly logStage: boolean;
  readonly nature: LabNature;
  /** Two say it in the same second, of the same TPU. */
  readonly isTwice: boolean;
}

export interface LabPlan {
  readonly users: readonly LabUser[];
  readonly tpus: readonly (LabTpu & { readonly workers: number })[];
  readonly wishes: readonly LabWish[];
}

const names = ['alice', 'bob', 'carol', 'dora', 'emil', 'frieda', 'gustav', '海伦'];

export function drawLab(chance: Chance, size: LabSize): LabPlan {
  const users = names.slice(0, size.users).map((name, index): LabUser => ({
    name,
    id: index,
    session: name,
    sheetName: name,
    logins: [],
    directories: { 1: `/code/${name}` },
    aliases: defaultAliases,
    settings: defaultUserSettings,
    nextWindow: chance.pick([1, 1, 42]),
    createdAt: 0,
    newsSeen: 0,
  }));
  const tpus = Array.from({ length: size.tpus }, (_, index) => {
    const isPreemptible = index % 2 === 0;
    return {
      name: `tpu-v2-32-${isPreemptible ? 'preemptible-' : ''}${index}`,
      project: 'pretend',
      zone: sureZone,
      accelerator: 'v2-32',
      pricing: isPreemptible ? ('preemptible' as const) : ('ondemand' as const),
      runtimeVersion: null,
      workers: chance.pick([1, 1, 2]),
    };
  });
  const kinds = chance.fork('kinds of failed calls');
  const wishes = Array.from({ length: size.jobs }, (): LabWish => ({
    // The last user still wants to see how it ends.
    at: chance.between(0, size.length * 0.95),
    user: chance.pick(users).name,
    rule: chance.pick([null, null, ...rules]),
    logStage: chance.yes(0.4),
    nature: drawNature(chance, kinds),
    isTwice: chance.yes(0.1),
  }));
  return { users, tpus, wishes };
}

function drawNature(chance: Chance, kinds: Chance): LabNature {
  const before = Array.from({ length: chance.pick([0, 0, 0, 1, 1, 2, 4]) }, () =>
    chance.pick(['grpc', 'grpc', 'grpc', 'fails', 'early'] as const),
  );
  const fortunes: readonly LabFortune[] = [
    ...before,
    chance.pick(['succeeds', 'succeeds', 'unasked', 'short', 'fails', 'grpc'] as const),
  ];
  return {
    // A fork, so that all else of a seed stays as it was.
    fortunes: fortunes.map((one) => (one === 'grpc' ? kinds.pick(['grpc', 'hangs', 'masked'] as const) : one)),
    length: chance.pick([chance.between(2, 30) * minute, chance.between(1, 4) * hour, chance.between(20, 90) * second]),
    goesOn: chance.yes(0.7),
  };
}
