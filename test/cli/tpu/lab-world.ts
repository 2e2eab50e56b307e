// A lab for tests of the `tpu` command: a real store in memory with some users and TPUs, and the CLI test harness. Tests
// pass in the parts of tmux, the cloud and the sheet that they need.

import { after } from 'node:test';
import { createJobFiles } from '../../../src/files/job-files.ts';
import { createDirectories, createLabHome } from '../../../src/wiring/lab-home.ts';
import { readCheckRows } from '../../../src/lab/check-rows.ts';
import type { Lab, LabServices } from '../../../src/lab/lab.ts';
import { clientFor } from '../../../src/app/store-client.ts';
import { clientParts } from '../../support/client-parts.ts';
import { run, runTpu } from '../../support/output-schema.ts';
import { resolveActor } from '../../../src/app/actor.ts';
import type { Client } from '../../../src/app/client.ts';
import type { Actor } from '../../../src/core/model/user.ts';
import { openStore, type JobmanStore } from '../../../src/store/store.ts';
import { defaultSettings } from '../../../src/app/settings.ts';
import { siteOf } from '../../../src/lab/site.ts';
import type { WindowWithJob, LabJob, LabStore } from '../../../src/lab/lab-store.ts';
import { aLabJob, aTpu, aUser, noon } from '../../support/lab-builders.ts';
import { aMember, localSpec } from '../../support/builders.ts';
import type { Scope } from '../../support/world.ts';
import { createServerLab } from '../../../src/lab/server-lab.ts';
import { serveLab } from './serve-lab.ts';
import { createCliHarness, type CliHarness, type CliHarnessOptions } from '../support/harness.ts';

export { aTpu };

export interface LabWorld {
  readonly store: JobmanStore;
  readonly labStore: LabStore;
  /** Jobs that were checked with `checkNow`, in order. */
  readonly checkedJobs: string[];
  /** Adds a job of the user with a window for its first attempt. */
  readonly job: (user: string, changes?: Partial<LabJob>) => Promise<WindowWithJob>;
  readonly tpu: RunCli;
  readonly jobman: RunCli;
}

export type RunCli = (argv: readonly string[], options?: CliHarnessOptions) => Promise<CliResult>;

export interface CliResult {
  readonly code: number;
  readonly out: string;
  readonly err: string;
  /** The commands that jobs received. */
  readonly commands: readonly string[];
}

export const unavailable = (what: string) => (): Promise<never> =>
  Promise.reject(new Error(`this test has no ${what}`));

type LabParts = Partial<Lab> & { readonly home?: string };

/** A lab with this store. Parts that are not given throw. */
export function aLab(labStore: LabStore, { home = '/nowhere', ...parts }: LabParts = {}): Lab {
  const lab: Lab = {
    isOnServer: false,
    store: labStore,
    localStore: () => labStore,
    project: async () => null,
    ...createDirectories(labStore),
    async checkRows(user, now) {
      const { namePrefix } = await lab.site();
      return readCheckRows({ store: labStore, files: createJobFiles(home), namePrefix }, user, now);
    },
    site: async () => siteOf(defaultSettings(1).lab, { home: '/', userHome: '/' }),
    sheet: unavailable('booking sheet'),
    tpus: unavailable('TPU operations'),
    tmuxWindows: unavailable('tmux'),
    checkNow: async () => null,
    assertOriginalHome: async () => undefined,
    // The store is used by several commands.
    close: async () => undefined,
    ...parts,
  };
  return lab;
}

export async function runCli(
  runProgram: typeof runTpu,
  lab: Lab,
  argv: readonly string[],
  harness: CliHarness,
  clientOf?: ClientOf,
  home?: string,
): Promise<CliResult> {
  const code = await runProgram(argv, servicesOf(lab, harness, clientOf, home));
  return { code, out: harness.out(), err: harness.err(), commands: harness.commands };
}

/** The output of --json: an object a line. */
export function jsonLines<T>(out: string): readonly T[] {
  return out.split('\n').flatMap((line) => (line === '' ? [] : [JSON.parse(line) as T]));
}

/** The second argument is the client of the harness. */
type ClientOf = (actor: Actor, harness: Client) => Client;

/** Without `clientOf`, every actor has the client of the harness. */
export function servicesOf(
  lab: Lab,
  { services }: CliHarness,
  clientOf: ClientOf = (actor, client) => ({ ...client, whoAmI: async () => actor }),
  home = services.home,
): LabServices {
  return {
    ...services,
    lab: async () => lab,
    labHome: async () => createLabHome(home),
    async clientAs(requested) {
      const actor = resolveActor({ login: services.io.user, isHomeOwner: true }, requested, await lab.store.users());
      return clientOf(actor, await services.client());
    },
  };
}

/** A lab in memory. It needs no closing. With `scope`, the lab of a server, whose every user is an admin. */
export function openLabWorld(parts: Partial<Lab> = {}, home?: string, scope?: Scope): LabWorld {
  const store = openStore({ file: ':memory:' });
  const { lab: labStore } = store;
  const checkedJobs: string[] = [];
  const lab = aLab(labStore, {
    async checkNow(jobs) {
      checkedJobs.push(...jobs);
      return null;
    },
    ...parts,
  });
  const harnessFor = (options: CliHarnessOptions = {}): CliHarness =>
    createCliHarness({ cwd: import.meta.dirname, ...options });
  const storeParts = clientParts('/nowhere', store, { now: () => noon });
  const clientOf: ClientOf = (actor, client) => {
    const own = clientFor(async () => actor, storeParts);
    return { ...client, whoAmI: async () => actor, checkLabCommand: (command) => own.checkLabCommand(command) };
  };
  const used = scope === undefined ? Promise.resolve(lab) : openServed(scope);
  async function openServed(of: Scope): Promise<Lab> {
    const open = await serveLab(of, storeParts, () => lab);
    return { ...createServerLab(open(aMember('alice', { role: 'admin' })).lab), isOnServer: false };
  }
  return {
    store,
    labStore,
    checkedJobs,
    async job(user, changes) {
      const { job } = await store.insert({ owner: user, spec: localSpec(), manifest: '', at: noon });
      await labStore.addJob(aLabJob(job.id, user, changes));
      return labStore.openWindow(job.id, 1, noon);
    },
    tpu: async (argv, options) => runCli(runTpu, await used, argv, harnessFor(options), clientOf, home),
    jobman: (argv, options) => runCli(run, lab, argv, harnessFor(options)),
  };
}

/** A lab with the users xibo (0) and lyy (1) and the TPUs v2-32-6 and v2-32-p1. */
export async function openSampleLab(parts: Partial<Lab> = {}, scope?: Scope): Promise<LabWorld> {
  const world = openLabWorld(parts, undefined, scope);
  const { labStore } = world;
  await labStore.addUser(aUser('xibo'));
  await labStore.addUser(aUser('lyy'));
  for (const [alias, name] of [
    ['v2-32-6', 'kmh-tpuvm-v2-32-6'],
    ['v2-32-p1', 'kmh-tpuvm-v2-32-preemptible-1'],
  ] as const) {
    await labStore.changeTpu(name, { kind: 'add', tpu: aTpu(name) });
    await labStore.setTpuAlias(alias, name);
  }
  return world;
}

/** For tests of both: the lab of this machine, and that of a server. */
export const labs = [
  { openLabWorld, openSampleLab },
  {
    openLabWorld: (parts?: Partial<Lab>, home?: string) => openLabWorld(parts, home, { after }),
    openSampleLab: (parts?: Partial<Lab>) => openSampleLab(parts, { after }),
  },
] as const;
