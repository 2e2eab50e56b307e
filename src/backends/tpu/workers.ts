// The workers of a job's TPU: how each is reached by ssh, in process and by the system's own client.

import type { AllocationRef, WorkerRef } from '../../app/ports.ts';
import type { SshHost } from '../../app/by-hand.ts';
import type { SshTransport } from '../../remote/ssh.ts';
import type { Reach } from '../../remote/transport.ts';
import { createDoors } from './doors.ts';
import type { DoorsOptions, Machines } from './doors.ts';
import { userOf } from './login.ts';
import type { LoginOptions } from './login.ts';
import { nodeIds, placeOf, tpuOf } from './places.ts';

export type { SshWay } from './doors.ts';

export interface TpuWorkersOptions extends LoginOptions, DoorsOptions {}

export interface TpuWorkers {
  /** The way to that worker, for `MachinesParts.reach`. Makes no connection by itself; asks the cloud once for the host keys. */
  reach(ref: WorkerRef): Promise<Reach>;
  /** The same way for a person's own hands. Throws JobmanError when there is none. */
  transport(ref: WorkerRef): Promise<SshTransport>;
  /** Closes the connections to that allocation's workers; of one that was released the pinned host keys go too. */
  forget(ref: AllocationRef): void;
  /** See Doors. */
  sshHost(ref: WorkerRef): Promise<SshHost>;
  /** See Doors. */
  sshArgv(ref: WorkerRef, command: readonly string[]): Promise<readonly string[]>;
}

export function createTpuWorkers(options: TpuWorkersOptions): TpuWorkers {
  const doors = createDoors(options);

  function machinesOf(ref: AllocationRef): Machines {
    const spec = tpuOf(ref);
    return {
      name: ref.allocation.name,
      place: placeOf(ref),
      nodeIds: nodeIds(ref),
      hosts: ref.allocation.hosts ?? [],
      user: userOf(spec, options),
      privateKey: spec.privateKey,
      isExisting: spec.ownership === 'standing',
      pinPrefix: pinPrefix(ref),
    };
  }

  const transport = async (ref: WorkerRef): Promise<SshTransport> =>
    doors.transport(machinesOf(ref), Number(ref.worker));

  return {
    async reach(ref) {
      try {
        return { kind: 'open', transport: await transport(ref) };
      } catch (error) {
        return { kind: 'closed', reason: error instanceof Error ? error.message : String(error) };
      }
    },
    transport,
    forget: (ref) => doors.forget(pinPrefix(ref), { pins: ref.allocation.releasedAt !== null }),
    sshHost: async (ref) => doors.sshHost(machinesOf(ref), Number(ref.worker)),
    sshArgv: async (ref, command) => doors.sshArgv(machinesOf(ref), Number(ref.worker), command),
  };
}

/** The beginning of the names of all pins of an allocation; a worker's number follows. */
function pinPrefix({ job, allocation }: AllocationRef): string {
  return `${job.installation}-${job.id}-${allocation.ordinal}-w`;
}
