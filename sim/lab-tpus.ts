// The TPUs of a simulated lab: programs of scripts on their workers, which outlive the connection to the login machine,
// and the TPU operations for users and scripts. Answers contain what the workers can observe.

import type { EndResult, EndRequest, HolderScan, TpuOperations, TpuState } from '../src/lab/tpu-operations.ts';
import type { DeviceHolder } from '../src/app/lab-job.ts';
import type { LabTpu } from '../src/lab/tpus.ts';
import { second } from '../src/core/model/time.ts';
import type { Chance } from './chance.ts';
import type { CloudModel } from './cloud.ts';
import { findMachine, hostName, requestMachine, newMachine, releaseMachine } from './world.ts';
import type { Host, Machine, World } from './world.ts';

/** One program of an attempt on one worker. */
export interface Program {
  readonly host: Host;
  readonly job: string;
  readonly attempt: number;
  readonly pid: number;
  readonly logFolder: string;
  readonly stageFolder: string;
  readonly startedAt: number;
  endedAt: number | null;
  readonly listeners: Set<() => void>;
}

export interface Programs {
  readonly all: readonly Program[];
  start(host: Host, given: Pick<Program, 'job' | 'attempt' | 'logFolder' | 'stageFolder'>): Program;
  end(program: Program, why: string): void;
  /** All live programs on that TPU, whichever machine has its name now. */
  aliveOn(tpu: string): readonly Program[];
  hostDown(host: Host): void;
}

export function createPrograms(world: World, begins: (program: Program) => void): Programs {
  const all: Program[] = [];
  const end = (program: Program, why: string): void => {
    if (program.endedAt !== null) return;
    program.endedAt = world.timeline.now;
    world.log(`tpu: ${programName(program)} ends: ${why}`);
    for (const listener of program.listeners) listener();
  };
  return {
    all,
    start(host, given) {
      const program: Program = {
        host,
        ...given,
        pid: 1_000 + all.length,
        startedAt: world.timeline.now,
        endedAt: null,
        listeners: new Set(),
      };
      world.log(`tpu: ${programName(program)} begins`);
      begins(program);
      all.push(program);
      return program;
    },
    end,
    aliveOn: (tpu) => all.filter((one) => one.endedAt === null && one.host.machine.name === tpu),
    hostDown(host) {
      for (const program of all) if (program.host === host) end(program, 'its worker went down');
    },
  };
}

export function programName({ job, attempt, host }: Program): string {
  return `program ${job}/${attempt} on ${hostName(host)}`;
}

export function isReachable(host: Host, cloudModel: CloudModel): boolean {
  return host.isUp && host.outage === null && !cloudModel.isNetworkCut;
}

/** Like the real TPU operations, without an abort. */
export interface SimulatedTpuOperations {
  describe(tpu: LabTpu): ReturnType<TpuOperations['describe']>;
  reapply(tpu: LabTpu): Promise<void>;
  holders(tpu: LabTpu): Promise<HolderScan>;
  end(tpu: LabTpu, what: EndRequest): Promise<EndResult>;
}

/** The TPU operations of this simulated cloud, with the delays of SSH and the cloud. */
export function createTpuOperations(parts: {
  readonly world: World;
  readonly cloudModel: CloudModel;
  readonly chance: Chance;
  readonly programs: Programs;
  readonly workersOf: (tpu: string) => number;
}): SimulatedTpuOperations {
  const { world, cloudModel, chance, programs } = parts;
  const { timeline } = world;

  function machineOf(tpu: LabTpu): Machine | undefined {
    return findMachine(world, tpu.zone ?? '', tpu.name);
  }

  async function describe(tpu: LabTpu): Promise<TpuState> {
    await timeline.pause(chance.between(100, 2_000));
    if (cloudModel.isCloudDown) return { kind: 'unknown', message: 'the cloud does not answer' };
    const machine = machineOf(tpu);
    const state = machine === undefined ? 'absent' : stateName(machine);
    return { kind: 'known', state, zone: tpu.zone ?? '', workers: machine?.hosts.length ?? 0 };
  }

  async function ask<T>(
    tpu: LabTpu,
    each: (host: Host) => T,
  ): Promise<{ readonly answers: readonly T[]; readonly missed: HolderScan['unreachable'] }> {
    const hosts = machineOf(tpu)?.hosts ?? [];
    const answered = await Promise.all(
      hosts.map(async (host) => {
        await timeline.pause(chance.between(200, 6_000));
        if (isReachable(host, cloudModel)) return { answers: [each(host)], missed: [] };
        await timeline.pause(10 * second);
        return { answers: [], missed: [{ worker: host.worker, message: 'it does not answer' }] };
      }),
    );
    return {
      answers: answered.flatMap(({ answers }) => answers),
      missed: answered.flatMap(({ missed }) => missed),
    };
  }

  return {
    describe,
    async reapply(tpu) {
      const before = machineOf(tpu);
      if (before !== undefined) releaseMachine(world, before);
      while (machineOf(tpu) !== undefined) await timeline.pause(5 * second);
      const { name, zone } = tpu;
      requestMachine(
        world,
        newMachine({
          name,
          labels: null,
          isPersistent: true,
          workers: parts.workersOf(name),
          at: timeline.now,
          zone: zone ?? '',
        }),
      );
      for (;;) {
        await timeline.pause(10 * second);
        const machine = machineOf(tpu);
        if (machine === undefined || machine.state === 'ready' || machine.state === 'lost') return;
      }
    },
    async holders(tpu) {
      const { answers, missed } = await ask(tpu, (host) =>
        programs.all.filter((one) => one.host === host && one.endedAt === null).map(holder),
      );
      return { holders: answers.flat(), unreachable: missed };
    },
    async end(tpu, { folders, pids }) {
      const { answers, missed } = await ask(tpu, (host): EndResult['ended'] => {
        const selected = programs.all.filter(
          (one) =>
            one.host === host &&
            one.endedAt === null &&
            (folders.includes(one.logFolder) ||
              folders.includes(one.stageFolder) ||
              pids.some(({ worker, pid }) => worker === host.worker && pid === one.pid)),
        );
        for (const program of selected) programs.end(program, 'it was ended from the login machine');
        return selected.map(holder);
      });
      return { ended: answers.flat(), left: [], unreachable: missed };
    },
  };
}

function holder({ host, pid, job, logFolder }: Program): DeviceHolder {
  return { worker: host.worker, pid, user: 'lab', command: `python main.py --workdir=${logFolder} (${job})` };
}

function stateName({ state, cause }: Machine): string {
  switch (state) {
    case 'waiting':
    case 'provisioning':
      return 'creating';
    case 'ready':
      return 'ready';
    case 'interrupted':
      return 'repairing';
    case 'lost':
      return cause === 'preempted' ? 'preempted' : 'terminated';
    case 'releasing':
      return 'deleting';
    case 'gone':
      return 'absent';
  }
}
