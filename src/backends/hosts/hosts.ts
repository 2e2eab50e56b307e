// Hosts: the machines of a job on own machines, their addresses, and the way to them over SSH with the user's own
// configuration, keys and known_hosts.

import { hostname } from 'node:os';
import { exitCode, JobmanError } from '../../app/errors.ts';
import type { NamedHost } from '../../app/hosts.ts';
import type { AllocationRef, CapacityPort, WorkerRef } from '../../app/ports.ts';
import type { WorkerLogin } from '../../app/worker-access.ts';
import { openAttempt, type Host } from '../../core/model/job.ts';
import {
  known,
  unknown,
  type AllocationStatus,
  type Observed,
  type OutcomeResult,
} from '../../core/model/observation.ts';
import { formatHosts, hostNamesOf, isOwnHost, ownHost, type HostName } from '../../core/model/spec.ts';
import type { Instant } from '../../core/model/time.ts';
import { createSshLogins } from '../../remote/ssh-logins.ts';
import type { SshPool, SshTransport } from '../../remote/ssh.ts';

/** The hosts of such a job. */
function hostsOfJob({ job }: Pick<AllocationRef, 'job'>): readonly HostName[] {
  return hostNamesOf(job.spec.capacity);
}

/** True for a worker that is this machine. */
export function isOnOwnHost(ref: Pick<WorkerRef, 'job' | 'worker'>): boolean {
  return ref.worker === 'controller' || hostsOfJob(ref)[ref.worker] === ownHost;
}

/** `[user@]host[:port]`, as the settings accept it. Null: as ssh_config says. */
export function parseSshAddress(address: string): Pick<WorkerLogin, 'host' | 'port' | 'user'> {
  const [, user = null, host = address, port] = /^(?:([^@]*)@)?(\[[^\]]*\]|[^:]*)(?::(\d+))?$/u.exec(address) ?? [];
  return { host: host.replace(/^\[(.*)\]$/u, '$1'), port: port === undefined ? null : Number(port), user };
}

/** The login of a host. All jobs there share its connections. */
export function hostLogin(name: HostName, address: string, worker: number): WorkerLogin {
  return {
    worker,
    ...parseSshAddress(address),
    privateKey: null,
    pinName: `host-${name}`,
    hostKeys: [],
    usesUserConfig: true,
    addKey: null,
    verifiesKnownHosts: true,
  };
}

export type HostRoutes = ReturnType<typeof createHostRoutes>;

/** Methods throw JobmanError if the worker cannot be reached over SSH. */
export function createHostRoutes({ home, pool }: { readonly home: string; readonly pool: SshPool }) {
  const logins = createSshLogins({ home, pool });

  async function login(ref: WorkerRef): Promise<WorkerLogin> {
    const name = hostsOfJob(ref)[Number(ref.worker)];
    if (name === ownHost)
      throw new JobmanError(`worker ${ref.worker} is this machine, so the command can run here`, exitCode.usage);
    const address = ref.allocation.hosts?.[Number(ref.worker)]?.externalIp ?? null;
    if (name === undefined || address === null)
      throw new JobmanError(`worker ${ref.worker} has no recorded address yet`, exitCode.unreachable);
    return hostLogin(name, address, Number(ref.worker));
  }

  const transport = async (ref: WorkerRef): Promise<SshTransport> => logins.transport(await login(ref));

  return {
    login,
    transport,
  };
}

/**
 * Hosts always exist. A host that the settings do not name, or with another address, is unknown: nothing starts there. For a
 * job that was deleted by force it is absent, because its user has given up the machine.
 */
export function createHostsCapacity(options: {
  readonly hosts: readonly NamedHost[];
  /** The host name behind an address, of the user's ssh_config. */
  readonly resolve: (address: string) => Promise<string>;
  readonly now: () => Instant;
}): CapacityPort {
  const { now } = options;
  const done: OutcomeResult = { kind: 'done' };

  async function observe(ref: AllocationRef): Promise<Observed<AllocationStatus>> {
    const names = hostsOfJob(ref);
    const ready = { state: 'ready', detail: formatHosts(names), workers: names.length } as const;
    if (isOwnHost(names)) return known(ready, now());
    const { job, allocation } = ref;
    const attempt = openAttempt(job);
    const isStarted = attempt !== undefined && attempt.startedAt !== null && attempt.allocation === allocation.ordinal;
    const hosts: Host[] = [];
    const unusable = (reason: string): Observed<AllocationStatus> =>
      job.removed ? known({ state: 'absent', detail: reason }, now()) : unknown(reason, now());
    for (const [worker, name] of names.entries()) {
      const host = options.hosts.find((one) => one.name === name);
      if (host === undefined) return unusable(`the settings no longer name the host ${name}`);
      const recorded = allocation.hosts?.[worker];
      if (isStarted && recorded !== undefined && recorded.externalIp !== host.ssh)
        return unusable(`the settings give the host ${name} another address than ${recorded.externalIp}`);
      hosts.push({
        internalIp: host.ssh === null ? hostname() : await options.resolve(host.ssh),
        externalIp: host.ssh,
      });
    }
    return known({ ...ready, hosts }, now());
  }

  return {
    backend: 'hosts',
    observe: (refs) => Promise.all(refs.map(observe)),
    request: () => Promise.resolve(done),
    release: () => Promise.resolve(done),
    listLabelled: () => Promise.resolve(known([], now())),
    releaseOrphan: () => Promise.resolve(done),
    pricePerHour: () => null,
  };
}
