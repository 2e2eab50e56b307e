// Injects each kind of fault through the command line or by a signal.

import { execFile } from 'node:child_process';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { eventually } from '../../test/support/eventually.ts';
import type { ChaosContext, Host } from './context.ts';
import type { Fault, FaultKind } from './plan.ts';
import { readReports } from './program-reports.ts';

export interface FaultResult {
  /** A job could have noticed the fault. A chaos test in which a kind of fault never hits proves nothing. */
  readonly isHit: boolean;
  /** Jobs that may lose an attempt. */
  readonly affectedJobs: readonly string[];
}

/** Returns after the fault is over. */
export async function injectFault(context: ChaosContext, fault: Fault): Promise<FaultResult> {
  return injectors[fault.kind](context, fault);
}

type Injector = (context: ChaosContext, fault: Fault) => Promise<FaultResult>;

const noEffect: FaultResult = { isHit: false, affectedJobs: [] };
const harmless: FaultResult = { isHit: true, affectedJobs: [] };

const injectors: Readonly<Record<FaultKind, Injector>> = {
  /**
   * Each kill is followed by a user's command, because only a command restarts the controller. Every third kill waits
   * until part of a log is copied: on a busy machine the others hardly copy anything, and would not show a copy that
   * resumes wrongly.
   */
  async controller(context, { target, variant }) {
    const copied = context.copiedBytes();
    // The previous controller may still be starting: wait for it, and kill it within its first second.
    if (!context.isRunning('controller run')) {
      await eventually(() => context.isRunning('controller run'), { withinMs: maxWaitMs, everyMs: 300 });
      await sleep(variant * 1_000);
    }
    const hasCopied =
      variant < 1 / 3 &&
      (await eventually(() => context.copiedBytes() > copied, { withinMs: maxCopyMs, everyMs: 100 })) === true;
    const killed = context.kill('controller run');
    context.report(`controller: ${killed} killed${hasCopied ? ', copying logs' : ''}`);
    await sleep(variant * 1_500);
    await context.run(pick(userCommands, target) ?? []);
    return killed > 0 ? harmless : noEffect;
  },

  async hosts(context, { target, variant, durationMs }) {
    const host = await waitForHost(context, target);
    if (host === undefined) return noTarget(context, 'hosts');
    if (variant < 0.4) {
      const isHung = await tryAdminCommand(context, ['hang-host', nameOf(host), '--for', seconds(durationMs)]);
      return isHung ? harmless : noEffect;
    }
    return faultResult(host, await sendAdminCommand(context, ['kill-host', nameOf(host)]));
  },

  async preemptions(context, { target }) {
    const host = await waitForHost(context, target, ({ isSpot }) => isSpot);
    if (host === undefined) return noTarget(context, 'preemptions');
    return faultResult(host, await sendAdminCommand(context, ['preempt', host.node]));
  },

  /**
   * The machines continue, as Google's do when the API is down. In turn the emulator is killed while it creates a TPU,
   * while it deletes one, and at any time: it must complete its accepted operations afterwards.
   */
  async cloud(context, { target, variant, durationMs }) {
    const nodeState = pick(cloudFaultStates, target) ?? null;
    const isReached =
      nodeState === null ||
      (await eventually(async () => (await context.nodeStates()).includes(nodeState), {
        withinMs: maxWaitMs,
        everyMs: 100,
      }));
    const killed = context.kill('emulator serve');
    context.report(
      `cloud: ${killed} killed${nodeState === null ? '' : `, ${isReached === true ? '' : 'not '}${nodeState}`}`,
    );
    await sleep(variant * durationMs);
    await context.run(['emulator', 'start']);
    context.report('cloud: back');
    return killed > 0 ? harmless : noEffect;
  },

  /**
   * Refuses new connections and cuts the existing ones. The test measures the time itself, because the emulator's clock
   * may be moved, and verifies for each host that SSH is refused.
   */
  async ssh(context, { durationMs }) {
    await waitForHost(context, 0);
    const hosts = await context.hosts();
    for (const host of hosts) await tryAdminCommand(context, ['ssh-refuse', nameOf(host)]);
    const port = context.sshPort();
    if (hosts.length === 0 || port === undefined) return noTarget(context, 'ssh');
    context.report(`ssh: ${await cutConnections(port)} connections cut, ${hosts.length} hosts refuse`);
    await sleep(durationMs / 2);
    const open = (await Promise.all(hosts.map(async ({ sshAddress }) => acceptsSsh(sshAddress, port)))).filter(
      Boolean,
    ).length;
    context.report(`ssh: ${open} of ${hosts.length} hosts accept connections during the cut`);
    await sleep(durationMs / 2);
    for (const host of hosts) await retryAdminCommand(context, ['start-host', nameOf(host)]);
    context.report('ssh: back');
    return open === 0 ? harmless : noEffect;
  },

  /** Only on a host with a running program: during a setup a full disk rightly fails the setup. */
  async disk(context, { target, durationMs }) {
    const host = await waitForHost(context, target, (one) => hasProgram(context, one));
    if (host === undefined) return noTarget(context, 'disk');
    return (await tryAdminCommand(context, ['fill-disk', nameOf(host), '--for', seconds(durationMs)]))
      ? harmless
      : noEffect;
  },

  /** The controller's disk: neither the database nor copies of logs can be written. */
  async home(context, { durationMs }) {
    const isFull = context.fillHome?.() === true;
    context.report(`home: ${isFull ? 'full' : 'cannot be filled'}`);
    await sleep(durationMs);
    context.emptyHome?.();
    context.report('home: has room again');
    return isFull ? harmless : noEffect;
  },

  async clock(context, { target }) {
    const offset = pick(clockOffsets, target) ?? 0;
    context.clock?.setOffset(offset);
    context.report(`clock: ${offset} s away`);
    return context.clock === null || offset === 0 ? noEffect : harmless;
  },

  /** One hour by the moved clock, which advances in steps. */
  async login(context, { durationMs }) {
    const isExpired = await retryAdminCommand(context, ['permission', 'login']);
    for (let step = 0; step < hourSteps; step += 1) {
      await sleep(durationMs / hourSteps);
      context.clock?.advance(3_600 / hourSteps);
    }
    await retryAdminCommand(context, ['clear', 'permission']);
    return isExpired && context.clock !== null ? harmless : noEffect;
  },

  async replies(context, { target, durationMs }) {
    const args = pick(
      [
        ['drop', 'create'],
        ['drop', 'delete'],
        ['flaky', '--p', '0.3', '--for', seconds(durationMs)],
      ],
      target,
    );
    return (await tryAdminCommand(context, args ?? [])) ? harmless : noEffect;
  },
};

/** Node states in which the cloud is killed; null for any time. */
const cloudFaultStates: readonly (string | null)[] = ['CREATING', 'DELETING', null];

const maxWaitMs = 20_000;

const maxCopyMs = 8_000;

const hourSteps = 12;

const userCommands: readonly (readonly string[])[] = [['list'], ['show', '1'], ['why', '2'], ['controller', 'start']];

/** Seconds. A user mistypes the hour or the day, a time server makes small corrections; then the clock is right. */
const clockOffsets: readonly number[] = [3_600, 0, -86_400, 2, 86_400, -2, -3_600, 60, -60];

/** `unclear`: the response was lost, and the command may have been executed; other faults kill the cloud. */
type AdminResult = 'done' | 'refused' | 'unclear';

async function sendAdminCommand(context: ChaosContext, args: readonly string[]): Promise<AdminResult> {
  const { code, stdout, stderr } = await context.run(['emulator', ...args]);
  context.report(`${args.join(' ')}: ${(stdout + stderr).trim()}`);
  return code === 0 ? 'done' : /does not answer/.test(stderr) ? 'unclear' : 'refused';
}

async function tryAdminCommand(context: ChaosContext, args: readonly string[]): Promise<boolean> {
  return (await sendAdminCommand(context, args)) === 'done';
}

/** The result of a fault that costs a job its attempt, if it was executed. */
function faultResult({ job }: Host, result: AdminResult): FaultResult {
  return result === 'refused' ? noEffect : { isHit: result === 'done', affectedJobs: [job] };
}

/** Retries until the cloud responds, because another fault may have killed it just before. */
async function retryAdminCommand(context: ChaosContext, args: readonly string[]): Promise<boolean> {
  let isDone = false;
  await eventually(
    async () => {
      isDone = await tryAdminCommand(context, args);
      return isDone || context.isEmulatorUp();
    },
    { withinMs: 60_000, everyMs: 500 },
  );
  return isDone;
}

/** Waits for a running host that `isEligible` accepts. */
async function waitForHost(
  context: ChaosContext,
  target: number,
  isEligible: (host: Host) => boolean = () => true,
): Promise<Host | undefined> {
  return eventually(async () => pick((await context.hosts()).filter(isEligible), target), {
    withinMs: maxWaitMs,
    everyMs: 500,
  });
}

function noTarget(context: ChaosContext, kind: FaultKind): FaultResult {
  context.report(`${kind}: there is no target`);
  return noEffect;
}

function nameOf({ node, worker }: Host): string {
  return `${node}/${worker}`;
}

function hasProgram(context: ChaosContext, { job, worker }: Host): boolean {
  const lines = readReports(context.reportFolder, job).lines.filter(
    (line) => (line.kind === 'start' || line.kind === 'end') && line.worker === String(worker),
  );
  return lines.at(-1)?.kind === 'start';
}

/** Ends all connections to a port at once, as a reconfigured firewall does; returns their number. Linux, as root. */
async function cutConnections(port: number): Promise<number> {
  // ss reports an error for a socket that was already closing.
  const { stdout } = await promisify(execFile)('ss', ['--no-header', '--kill', '--tcp', 'dport', '=', `:${port}`]);
  return stdout
    .trim()
    .split('\n')
    .filter((line) => line !== '').length;
}

function acceptsSsh(address: string, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, address);
    const finish = (answer: boolean): void => {
      socket.destroy();
      resolve(answer);
    };
    socket.setTimeout(5_000, () => finish(false));
    // A port that accepts the connection and sends nothing counts as closed.
    socket.on('data', () => finish(true)).on('error', () => finish(false));
  });
}

function pick<T>(list: readonly T[], fraction: number): T | undefined {
  return list[Math.floor(fraction * list.length)];
}

function seconds(ms: number): string {
  return `${Math.max(1, Math.round(ms / 1_000))}s`;
}
