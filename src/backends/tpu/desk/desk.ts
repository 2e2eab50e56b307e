// The desk of the TPUs over Google's API and SSH. See src/lab/tpu-desk.ts for what each method promises.

import { exitCode, JobmanError } from '../../../app/errors.ts';
import { accelerator } from '../../../catalogue/accelerators.ts';
import { second } from '../../../core/time.ts';
import type { Duration, Instant } from '../../../core/time.ts';
import type { Site } from '../../../lab/site.ts';
import { projectOf } from '../../../lab/run.ts';
import type { RunOptions, TpuDesk, WorkerAnswer } from '../../../lab/tpu-desk.ts';
import type { LabTpu } from '../../../lab/tpus.ts';
import { fanOut } from '../../../app/fan-out.ts';
import type { TpuApi } from '../api.ts';
import type { Doors, Machines } from '../doors.ts';
import { hostsOf } from '../meaning.ts';
import type { SharedMaker } from '../request.ts';
import { applyTpu, deleteTpu, reapplyTpu } from './change.ts';
import { cannotTell, lookForNode, stateWord } from './look.ts';
import type { NodeLook } from './look.ts';
import type { ChangeParts } from './parts.ts';
import { endScript, holdersScript, readEnd, readHolders } from './processes.ts';
import { restartTpu } from './restart.ts';
import { runScript } from './run-script.ts';

export interface TpuDeskParts {
  /** Shared with nobody: `close` ends its connections. */
  readonly doors: Doors;
  readonly closeDoors: () => void;
  readonly apiFor: (project: string) => TpuApi;
  /** The project of a TPU that names none. */
  readonly project: string | null;
  readonly site: Pick<Site, 'zones' | 'remoteUser' | 'privateKey'>;
  /** The login on the workers where the site names none. */
  readonly user: string;
  /** Lines of metadata that let the desk log in on the workers of what it makes. */
  readonly sshKeys: () => Promise<string>;
  /** The installation and the person that the labels and the metadata of a new TPU name. */
  readonly maker: () => Promise<SharedMaker>;
  readonly now: () => Instant;
  /** How often a change under way is looked at. */
  readonly lookEvery: Duration;
}

/** Workers that are asked at once. */
const workersAtOnce = 64;
/** How long a worker may take to say who holds its TPU. */
const holdersWithin: Duration = 30 * second;
/** On top of the grace: finding, killing, and the way. */
const endWithin: Duration = 40 * second;
/** A look that is no older than this tells where the workers are. */
const addressesFor: Duration = 10 * second;

/** States of a node in which nobody is to be met on its machines, though addresses of theirs may be known. */
const without = ['creating', 'starting', 'stopping', 'stopped', 'deleting', 'preempted', 'terminated', 'hidden'];

/** Asks nobody yet. */
export function createTpuDesk(parts: TpuDeskParts): TpuDesk {
  const { doors, apiFor, now, site } = parts;
  const seen = new Map<string, { readonly at: Instant; readonly look: NodeLook }>();

  async function look(tpu: LabTpu): Promise<NodeLook> {
    const project = projectOf(tpu, parts.project);
    const zones = tpu.zone === null ? site.zones : [tpu.zone];
    if (zones.length === 0) {
      throw new JobmanError(
        `Nothing says in which zone ${tpu.name} is, and the settings name no zones.`,
        exitCode.usage,
        ['jobman settings set lab.zones \'["us-central2-b"]\'    the zones in which this lab has TPUs'],
      );
    }
    const found = await lookForNode(apiFor(project), tpu.name, { project, zones });
    seen.set(tpu.name, { at: now(), look: found });
    return found;
  }

  /** The machines that it has now. Throws JobmanError where there are none, or where that cannot be told. */
  async function machinesOf(tpu: LabTpu): Promise<Machines> {
    const before = seen.get(tpu.name);
    const isFresh = before?.look.kind === 'there' && now() - before.at < addressesFor;
    const found = isFresh ? before.look : await look(tpu);
    if (found.kind === 'unknown') throw cannotTell(tpu, found.says);
    return machinesIn(tpu, found, parts);
  }

  async function onWorkers(tpu: LabTpu, script: string, options: RunOptions): Promise<readonly WorkerAnswer[]> {
    const machines = await machinesOf(tpu);
    const workers = machines.hosts.map((_, worker) => worker).filter((one) => options.workers?.includes(one) ?? true);
    const answers = await fanOut(workers, workersAtOnce, (worker) =>
      runScript(worker, () => doors.transport(machines, worker), { ...options, script }),
    );
    if (options.signal.aborted) throw interrupted(`working on ${tpu.name}`);
    return answers;
  }

  const change: ChangeParts = {
    apiFor,
    look,
    project: parts.project,
    site,
    sshKeys: parts.sshKeys,
    maker: parts.maker,
    lookEvery: parts.lookEvery,
    onWorkers: (tpu, script, signal) => {
      seen.delete(tpu.name);
      return onWorkers(tpu, script, { timeoutMs: 20 * second, signal });
    },
    forget(name, createTime) {
      seen.delete(name);
      doors.forget(pinPrefix(name, createTime), { pins: true });
    },
  };

  return {
    async describe(tpu) {
      const found = await look(tpu);
      if (found.kind === 'unknown') return { kind: 'unknown', says: found.says };
      const zone = found.place?.zone ?? tpu.zone ?? '';
      const hosts = found.kind === 'there' ? hostsOf(found.node).length : 0;
      const workers = hosts > 0 || found.kind === 'absent' ? hosts : (accelerator(tpu.accelerator)?.workers ?? 0);
      const made = found.kind === 'there' ? found.node.createTime : undefined;
      return { kind: 'known', state: stateWord(found), zone, workers, ...(made === undefined ? {} : { made }) };
    },
    apply: (tpu, say, signal) => applyTpu(change, tpu, say, signal),
    reapply: (tpu, say, signal, options = {}) => reapplyTpu(change, tpu, say, signal, options),
    delete: (tpu, say, signal, options = {}) => deleteTpu(change, tpu, say, signal, options),
    restart: (tpu, say, signal) => restartTpu(change, tpu, say, signal),
    onWorkers,

    async holders(tpu, signal) {
      const answers = await onWorkers(tpu, holdersScript, { timeoutMs: holdersWithin, signal });
      return { holders: answers.flatMap((one) => readIf(one, readHolders) ?? []), missed: missedOf(answers) };
    },

    async end(tpu, what, signal) {
      const machines = await machinesOf(tpu);
      const options = { timeoutMs: endWithin + what.graceMs, signal };
      const answers = await fanOut(
        machines.hosts.map((_, worker) => worker),
        workersAtOnce,
        (worker) => {
          const pids = what.pids.filter((one) => one.worker === worker).map(({ pid }) => pid);
          const script = endScript(what, pids);
          return runScript(worker, () => doors.transport(machines, worker), { ...options, script });
        },
      );
      if (signal.aborted) throw interrupted(`ending what runs on ${tpu.name}`);
      const ends = answers.map((one) => readIf(one, readEnd));
      return {
        ended: ends.flatMap((end) => end?.ended ?? []),
        left: ends.flatMap((end) => end?.left ?? []),
        missed: missedOf(answers),
      };
    },

    close: () => parts.closeDoors(),
  };
}

/** The machines of a TPU that was looked at. Throws JobmanError if there are none. */
function machinesIn(
  tpu: LabTpu,
  found: Exclude<NodeLook, { readonly kind: 'unknown' }>,
  { site, user }: Pick<TpuDeskParts, 'site' | 'user'>,
): Machines {
  const state = stateWord(found);
  if (found.kind === 'absent') {
    throw new JobmanError(`${tpu.name} is not there (${state}), so there are no workers to ask.`, exitCode.conflict, [
      `tpu apply ${tpu.name}    makes it`,
    ]);
  }
  const hosts = hostsOf(found.node);
  if (without.includes(state) || hosts.length === 0) {
    throw new JobmanError(`${tpu.name} is ${state}, so there are no workers to ask.`, exitCode.conflict, [
      `tpu describe ${tpu.name}    says how it is`,
    ]);
  }
  return {
    name: tpu.name,
    place: found.place,
    nodeIds: [tpu.name],
    hosts,
    user: site.remoteUser ?? user,
    privateKey: site.privateKey,
    isExisting: true,
    pinPrefix: pinPrefix(tpu.name, found.node.createTime),
  };
}

/** One that was made at another moment is another TPU with other machines, whatever its name and address. */
function pinPrefix(name: string, createTime: string | undefined): string {
  const made = Date.parse(createTime ?? '');
  return `desk-${name}-${Number.isNaN(made) ? 0 : made}-w`;
}

/** A script that failed has told nothing: its worker is missed. */
function readIf<Read>(answer: WorkerAnswer, read: (worker: number, output: string) => Read): Read | undefined {
  return answer.kind === 'ended' && answer.code === 0 ? read(answer.worker, answer.output) : undefined;
}

function missedOf(answers: readonly WorkerAnswer[]): { readonly worker: number; readonly says: string }[] {
  return answers.flatMap((one) => {
    if (one.kind === 'no_answer') return [{ worker: one.worker, says: one.says }];
    return one.code === 0 ? [] : [{ worker: one.worker, says: lastLine(one) }];
  });
}

function lastLine({ output, code }: Extract<WorkerAnswer, { readonly kind: 'ended' }>): string {
  return output.trim().split('\n').at(-1) || `its shell ended with ${code}`;
}

function interrupted(what: string): JobmanError {
  return new JobmanError(`Interrupted while ${what}.`, exitCode.interrupted);
}
