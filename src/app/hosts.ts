// Hosts: this machine, and machines that the settings name and that jobman reaches by SSH. Each has slots, the units of
// its pool.

import { int, objectMap, objectOf, refined, reportProblem, textWhere, type ValueOf } from '../schema/kinds.ts';
import type { SettingsRule, SettingValues } from '../schema/settings.ts';
import type { Settings } from './settings.ts';
import { hostNameProblem, ownHost } from '../core/model/spec.ts';

/** As in the image of a server. */
export const noShell = 'the machine of the controller has no shell (/bin/sh), so it cannot run programs of jobs';

const sshAddress = /^(?:[A-Za-z_][\w.-]*@)?(?:[A-Za-z0-9][\w.-]*|\[[\da-fA-F:.]+\])(?::(?<port>[1-9]\d{0,4}))?$/;

const host = refined(
  objectOf(
    '{ "ssh": "gpu1.lab", "slots": 2 }',
    {
      ssh: textWhere('an SSH address like "gpu1.lab" or "ada@example.com:2222"', (text) => {
        const found = sshAddress.exec(text);
        return found !== null && Number(found.groups?.['port'] ?? 22) <= 65_535;
      }),
    },
    { slots: int(1), gpus: int(1) },
  ),
  (value, fail) => {
    const problem = sharingProblem(hostOf('', value));
    return problem === null ? value : fail(problem);
  },
);

function sharingProblem({ slots, gpus }: Pick<NamedHost, 'slots' | 'gpus'>): string | null {
  return gpus === null || gpus % slots === 0
    ? null
    : `has ${gpus} GPUs, which ${slots} slots cannot share evenly; each slot gets the same number of GPUs`;
}

/** The slots of this machine must share its GPUs evenly, even if another file of settings has one of the numbers. */
export function ownGpusRule(below: SettingValues): SettingsRule {
  return (values, trees, report) => {
    const [slots, gpus] = ['local.slots', 'local.gpus'].map((key) => values.get(key) ?? below.get(key));
    const tree = trees.get('local.gpus') ?? trees.get('local.slots');
    if (tree === undefined || typeof slots !== 'number' || typeof gpus !== 'number' || gpus === 0) return;
    const problem = sharingProblem({ slots, gpus });
    if (problem !== null)
      reportProblem(tree, ['local'], report, `${problem}; to change both numbers, set local.gpus to 0 first`);
  };
}

type HostSetting = ValueOf<typeof host>;

export const hostsKind = objectMap(
  'an object like { "gpu1": { "ssh": "gpu1.lab", "slots": 2 } }',
  hostNameProblem,
  host,
);

export interface NamedHost {
  readonly name: string;
  /** `[user@]host[:port]`, or a name of ssh_config; null: this machine. */
  readonly ssh: string | null;
  /** Maximum number of jobs that run there at the same time. */
  readonly slots: number;
  /** The slots share them evenly; null: not declared. */
  readonly gpus: number | null;
}

export function hostOf(name: string, { ssh, slots, gpus }: HostSetting): NamedHost {
  return { name, ssh, slots: slots ?? gpus ?? 1, gpus: gpus ?? null };
}

/** This machine is the first. */
export function hostsOf({ local, hosts }: Pick<Settings, 'local' | 'hosts'>): readonly NamedHost[] {
  const named = Object.entries(hosts).map(([name, one]) => hostOf(name, one));
  return [{ name: ownHost, ssh: null, slots: local.slots, gpus: local.gpus || null }, ...named];
}
