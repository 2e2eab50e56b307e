// How each kind of fault is done: by what a person or an accident would do, through the front door or by a signal.

import { execFile } from 'node:child_process';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { eventually } from '../../test/support/eventually.ts';
import type { Ground, Host } from './ground.ts';
import type { Fault, FaultKind } from './plan.ts';
import { readTestimony } from './witness.ts';

/** What came of one fault. */
export interface Struck {
  /** Something was done that a job may feel. A storm none of whose faults met anybody has proven nothing. */
  readonly isHit: boolean;
  /** The ids of the jobs that it may cost an attempt. */
  readonly costs: readonly string[];
}

/** Does one fault, to its end, and tells what it did. */
export async function strike(ground: Ground, fault: Fault): Promise<Struck> {
  return acts[fault.kind](ground, fault);
}

type Act = (ground: Ground, fault: Fault) => Promise<Struck>;

const missed: Struck = { isHit: false, costs: [] };
const harmless: Struck = { isHit: true, costs: [] };

const acts: Readonly<Record<FaultKind, Act>> = {
  /**
   * Somebody comes by afterwards, sooner or later: no command without a controller, and the next one brings it back. Every
   * third has copied something of a log when it falls. On a busy machine the others hardly get as far, and a storm in which
   * nobody goes on from the middle of a log did not notice one that went on at the wrong byte.
   */
  async controller(ground, { where, how }) {
    const copied = ground.copiedBytes();
    // The one before may be on its way up, and a kill of nobody proves nothing. Then it meets it at some moment of its first.
    if (!ground.isRunning('controller run')) {
      await eventually(() => ground.isRunning('controller run'), { withinMs: waitMostMs, everyMs: 300 });
      await sleep(how * 1_000);
    }
    const hasCopied =
      how < 1 / 3 &&
      (await eventually(() => ground.copiedBytes() > copied, { withinMs: copyMostMs, everyMs: 100 })) === true;
    const killed = ground.kill('controller run');
    ground.tell(`controller: ${killed} killed${hasCopied ? ', copying logs' : ''}`);
    await sleep(how * 1_500);
    await ground.say(pick(comingBy, where) ?? []);
    return killed > 0 ? harmless : missed;
  },

  async hosts(ground, { where, how, lastsMs }) {
    const host = await someHost(ground, where);
    if (host === undefined) return nobody(ground, 'hosts');
    if (how < 0.4) {
      const isHung = await act(ground, ['hang-host', nameOf(host), '--for', seconds(lastsMs)]);
      return isHung ? harmless : missed;
    }
    return asked(host, await ask(ground, ['kill-host', nameOf(host)]));
  },

  async preemptions(ground, { where }) {
    const host = await someHost(ground, where, ({ isSpot }) => isSpot);
    if (host === undefined) return nobody(ground, 'preemptions');
    return asked(host, await ask(ground, ['preempt', host.node]));
  },

  /**
   * Its machines go on meanwhile, as Google's do when its API is down; connections to them are cut. By turns it falls while it
   * makes something, while it takes something away, and at any moment: what it had promised must come true afterwards.
   */
  async cloud(ground, { where, how, lastsMs }) {
    const moment = pick(moments, where) ?? null;
    const isIt =
      moment === null ||
      (await eventually(async () => (await ground.nodeStates()).includes(moment), {
        withinMs: waitMostMs,
        everyMs: 100,
      }));
    const killed = ground.kill('emulator serve');
    ground.tell(`cloud: ${killed} killed${moment === null ? '' : `, ${isIt === true ? '' : 'not '}${moment}`}`);
    await sleep(how * lastsMs);
    await ground.say(['emulator', 'start']);
    ground.tell('cloud: back');
    return killed > 0 ? harmless : missed;
  },

  /**
   * Nobody gets in, and who is in is thrown out. The storm keeps the time itself: the cloud's own clock may be moved meanwhile,
   * and a minute that is over at once proves nothing. That the doors are closed is tried at each.
   */
  async ssh(ground, { lastsMs }) {
    await someHost(ground, 0);
    const hosts = await ground.hosts();
    for (const host of hosts) await act(ground, ['ssh-refuse', nameOf(host)]);
    const port = ground.sshPort();
    if (hosts.length === 0 || port === undefined) return nobody(ground, 'ssh');
    ground.tell(`ssh: ${await cutConnections(port)} connections cut, ${hosts.length} hosts refuse`);
    await sleep(lastsMs / 2);
    const open = (await Promise.all(hosts.map(async ({ address }) => letsIn(address, port)))).filter(Boolean).length;
    ground.tell(`ssh: ${open} of ${hosts.length} doors are open in the middle of the cut`);
    await sleep(lastsMs / 2);
    for (const host of hosts) await actUntilHeard(ground, ['start-host', nameOf(host)]);
    ground.tell('ssh: back');
    return open === 0 ? harmless : missed;
  },

  /** Where a program runs: a disk that is full while a TPU is set up fails the setup, and rightly. */
  async disk(ground, { where, lastsMs }) {
    const host = await someHost(ground, where, (one) => hasProgram(ground, one));
    if (host === undefined) return nobody(ground, 'disk');
    return (await act(ground, ['fill-disk', nameOf(host), '--for', seconds(lastsMs)])) ? harmless : missed;
  },

  /** Of the machine that the controller runs on: neither the record nor the copies of logs can be written. */
  async home(ground, { lastsMs }) {
    const isFull = ground.fillHome?.() === true;
    ground.tell(`home: ${isFull ? 'full' : 'cannot be filled'}`);
    await sleep(lastsMs);
    ground.emptyHome?.();
    ground.tell('home: has room again');
    return isFull ? harmless : missed;
  },

  async clock(ground, { where }) {
    const offset = pick(offsets, where) ?? 0;
    ground.clock?.move(offset);
    ground.tell(`clock: ${offset} s away`);
    return ground.clock === null || offset === 0 ? missed : harmless;
  },

  /** For an hour, by the clock of everybody who could look at one: it goes ahead meanwhile, in steps. */
  async login(ground, { lastsMs }) {
    const isExpired = await actUntilHeard(ground, ['permission', 'login']);
    for (let step = 0; step < hourSteps; step += 1) {
      await sleep(lastsMs / hourSteps);
      ground.clock?.pass(3_600 / hourSteps);
    }
    await actUntilHeard(ground, ['clear', 'permission']);
    return isExpired && ground.clock !== null ? harmless : missed;
  },

  async replies(ground, { where, lastsMs }) {
    const words = pick(
      [
        ['drop', 'create'],
        ['drop', 'delete'],
        ['flaky', '--p', '0.3', '--for', seconds(lastsMs)],
      ],
      where,
    );
    return (await act(ground, words ?? [])) ? harmless : missed;
  },
};

/** While a node is in which state the cloud falls; null for any moment. */
const moments: readonly (string | null)[] = ['CREATING', 'DELETING', null];

/** So long a fault waits for somebody whom it can meet. */
const waitMostMs = 20_000;

/** And so long a controller is given to copy something, where a job may print. */
const copyMostMs = 8_000;

const hourSteps = 12;

/** What people ask when they come by. */
const comingBy: readonly (readonly string[])[] = [['list'], ['show', '1'], ['why', '2'], ['controller', 'start']];

/** Seconds. Somebody mistypes the hour or the day, a time server corrects a little, and it is right again. */
const offsets: readonly number[] = [3_600, 0, -86_400, 2, 86_400, -2, -3_600, 60, -60];

/** `unclear`: the answer was lost, and it may have been done; storms kill the cloud, too. */
type Answer = 'done' | 'refused' | 'unclear';

async function ask(ground: Ground, words: readonly string[]): Promise<Answer> {
  const { code, stdout, stderr } = await ground.say(['emulator', ...words]);
  ground.tell(`${words.join(' ')}: ${(stdout + stderr).trim()}`);
  return code === 0 ? 'done' : /does not answer/.test(stderr) ? 'unclear' : 'refused';
}

async function act(ground: Ground, words: readonly string[]): Promise<boolean> {
  return (await ask(ground, words)) === 'done';
}

/** What came of something that costs a job its attempt, if it was done. */
function asked({ job }: Host, answer: Answer): Struck {
  return answer === 'refused' ? missed : { isHit: answer === 'done', costs: [job] };
}

/** Again until the cloud answers, whatever it says: it may have fallen over a moment ago. */
async function actUntilHeard(ground: Ground, words: readonly string[]): Promise<boolean> {
  let isDone = false;
  await eventually(
    async () => {
      isDone = await act(ground, words);
      return isDone || ground.isCloudUp();
    },
    { withinMs: 60_000, everyMs: 500 },
  );
  return isDone;
}

/** A host that is switched on and of that sort; waits a while until there is one. */
async function someHost(
  ground: Ground,
  where: number,
  isMeant: (host: Host) => boolean = () => true,
): Promise<Host | undefined> {
  return eventually(async () => pick((await ground.hosts()).filter(isMeant), where), {
    withinMs: waitMostMs,
    everyMs: 500,
  });
}

function nobody(ground: Ground, kind: FaultKind): Struck {
  ground.tell(`${kind}: nobody is there to be struck`);
  return missed;
}

function nameOf({ node, worker }: Host): string {
  return `${node}/${worker}`;
}

function hasProgram(ground: Ground, { job, worker }: Host): boolean {
  const story = readTestimony(ground.witness, job).story.filter(
    (told) => (told.kind === 'start' || told.kind === 'end') && told.worker === String(worker),
  );
  return story.at(-1)?.kind === 'start';
}

/** Ends all connections to that port at once, as a firewall that was set anew does; answers how many. Linux, as root. */
async function cutConnections(port: number): Promise<number> {
  // It says that something was invalid when a socket was closing already.
  const { stdout } = await promisify(execFile)('ss', ['--no-header', '--kill', '--tcp', 'dport', '=', `:${port}`]);
  return stdout
    .trim()
    .split('\n')
    .filter((line) => line !== '').length;
}

/** True when somebody who comes anew is let in. */
function letsIn(address: string, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, address);
    const say = (answer: boolean): void => {
      socket.destroy();
      resolve(answer);
    };
    socket.setTimeout(5_000, () => say(false));
    // A port that takes the connection and says nothing lets nobody in.
    socket.on('data', () => say(true)).on('error', () => say(false));
  });
}

function pick<T>(list: readonly T[], where: number): T | undefined {
  return list[Math.floor(where * list.length)];
}

function seconds(ms: number): string {
  return `${Math.max(1, Math.round(ms / 1_000))}s`;
}
