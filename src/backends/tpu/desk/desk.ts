// The desk of the TPUs over Google's API and SSH. See src/lab/tpu-desk.ts for what each method promises.

import { exitCode, JobmanError } from '../../../app/errors.ts';
import { accelerator } from '../../../catalogue/accelerators.ts';
import { second, type Duration, type Instant } from '../../../core/time.ts';
import { projectOf } from '../../../lab/run.ts';
import type { RunOptions, TpuDesk, WorkerAnswer } from '../../../lab/tpu-desk.ts';
import type { LabTpu } from '../../../lab/tpus.ts';
import { fanOut } from '../../../app/fan-out.ts';
import type { Machines } from '../workers.ts';
import { hostsOf } from '../meaning.ts';
import { applyTpu, deleteTpu, reapplyTpu } from './change.ts';
import {
  cannotTell,
  lookForNode,
  stateWord,
  type ChangeParts,
  type FoundNode,
  type NodeLook,
  type TpuDeskParts,
} from './progress.ts';
import { endScript, holdersScript, readEnd, readHolders, runScript } from './scripts.ts';
import { restartTpu } from './restart.ts';

const workersAtOnce = 64;
const holdersWithin: Duration = 30 * second;
const endWithin: Duration = 40 * second;
/** A look that is no older than this tells where the workers are. */
const addressesFor: Duration = 10 * second;

/** States of a node in which nobody is to be met on its machines, though addresses of theirs may be known. */
const without = ['creating', 'starting', 'stopping', 'stopped', 'deleting', 'preempted', 'terminated', 'hidden'];

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

  async function find(tpu: LabTpu): Promise<FoundNode> {
    const found = await look(tpu);
    if (found.kind === 'unknown') throw cannotTell(tpu, found.says);
    return found;
  }

  async function machinesOf(tpu: LabTpu): Promise<Machines> {
    const before = seen.get(tpu.name);
    const isFresh = before?.look.kind === 'there' && now() - before.at < addressesFor;
    return machinesIn(tpu, isFresh ? before.look : await find(tpu), parts);
  }

  /** Runs a script on each worker; one of `undefined` is left out. */
  async function runOnEach(
    tpu: LabTpu,
    scriptOf: (worker: number) => string | undefined,
    options: Pick<RunOptions, 'secrets' | 'timeoutMs' | 'signal'> & { readonly doing: string },
  ): Promise<readonly WorkerAnswer[]> {
    const machines = await machinesOf(tpu);
    const runs = machines.hosts.flatMap((_, worker) => {
      const script = scriptOf(worker);
      return script === undefined ? [] : [{ worker, script }];
    });
    const answers = await fanOut(runs, workersAtOnce, ({ worker, script }) =>
      runScript(worker, () => doors.transport(machines, worker), { ...options, script }),
    );
    if (options.signal.aborted)
      throw new JobmanError(`Interrupted while ${options.doing} ${tpu.name}.`, exitCode.interrupted);
    return answers;
  }

  function onWorkers(
    tpu: LabTpu,
    script: string,
    { workers, ...options }: RunOptions,
  ): Promise<readonly WorkerAnswer[]> {
    const scriptOf = (worker: number) => ((workers?.includes(worker) ?? true) ? script : undefined);
    return runOnEach(tpu, scriptOf, { ...options, doing: 'working on' });
  }

  const change: ChangeParts = {
    ...parts,
    find,
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
      const answers = await runOnEach(
        tpu,
        (worker) => {
          const pids = what.pids.filter((one) => one.worker === worker).map(({ pid }) => pid);
          return endScript(what, pids);
        },
        { timeoutMs: endWithin + what.graceMs, signal, doing: 'ending what runs on' },
      );
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
function machinesIn(tpu: LabTpu, found: FoundNode, { site, user }: Pick<TpuDeskParts, 'site' | 'user'>): Machines {
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
