// How each kind of fault is done: by what a person or an accident would do, through the front door or by a signal.

import { execFile } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import type { Ground, Host } from './ground.ts';
import type { Fault, FaultKind } from './plan.ts';
import { readTestimony } from './witness.ts';

/** Does one fault; answers the ids of the jobs that it may cost an attempt, and tells what it did. */
export async function strike(ground: Ground, fault: Fault): Promise<readonly string[]> {
  return acts[fault.kind](ground, fault);
}

type Act = (ground: Ground, fault: Fault) => Promise<readonly string[]>;

const acts: Readonly<Record<FaultKind, Act>> = {
  /** Somebody comes by afterwards, sooner or later: no command without a controller, and the next one brings it back. */
  async controller(ground, { where, how }) {
    ground.tell(`controller: ${ground.kill('controller run')} killed`);
    await sleep(how * 1_500);
    await ground.say(pick(comingBy, where) ?? []);
    return [];
  },

  async hosts(ground, { where, how, lastsMs }) {
    const host = pick(await ground.hosts(), where);
    if (host === undefined) return nobody(ground, 'hosts');
    if (how < 0.4) {
      await act(ground, ['hang-host', nameOf(host), '--for', seconds(lastsMs)]);
      return [];
    }
    return (await act(ground, ['kill-host', nameOf(host)])) ? [host.job] : [];
  },

  async preemptions(ground, { where }) {
    const host = pick(
      (await ground.hosts()).filter(({ isSpot }) => isSpot),
      where,
    );
    if (host === undefined) return nobody(ground, 'preemptions');
    return (await act(ground, ['preempt', host.node])) ? [host.job] : [];
  },

  /** Its machines go on meanwhile, as Google's do when its API is down; connections to them are cut. */
  async cloud(ground, { how, lastsMs }) {
    ground.tell(`cloud: ${ground.kill('emulator serve')} killed`);
    await sleep(how * lastsMs);
    await ground.say(['emulator', 'start']);
    ground.tell('cloud: back');
    return [];
  },

  /** Nobody gets in, and who is in is thrown out. */
  async ssh(ground, { lastsMs }) {
    const hosts = await ground.hosts();
    for (const host of hosts) await act(ground, ['ssh-refuse', nameOf(host), '--for', seconds(lastsMs)]);
    const port = ground.sshPort();
    if (port !== undefined)
      ground.tell(`ssh: ${await cutConnections(port)} connections cut, ${hosts.length} hosts refuse`);
    return [];
  },

  /** Where a program runs: a disk that is full while a TPU is set up fails the setup, and rightly. */
  async disk(ground, { where, lastsMs }) {
    const host = pick(
      (await ground.hosts()).filter((one) => hasProgram(ground, one)),
      where,
    );
    if (host === undefined) return nobody(ground, 'disk');
    await act(ground, ['fill-disk', nameOf(host), '--for', seconds(lastsMs)]);
    return [];
  },

  async clock(ground, { where }) {
    const offset = pick(offsets, where) ?? 0;
    ground.moveClock?.(offset);
    ground.tell(`clock: ${offset} s away`);
    return [];
  },

  async login(ground, { lastsMs }) {
    await act(ground, ['permission', 'login', '--for', seconds(lastsMs)]);
    return [];
  },

  async replies(ground, { where, lastsMs }) {
    await act(
      ground,
      pick(
        [
          ['drop', 'create'],
          ['drop', 'delete'],
          ['flaky', '--p', '0.3', '--for', seconds(lastsMs)],
        ],
        where,
      ) ?? [],
    );
    return [];
  },
};

/** What people ask when they come by. */
const comingBy: readonly (readonly string[])[] = [['list'], ['show', '1'], ['why', '2'], ['controller', 'start']];

/** Seconds. Somebody mistypes the hour or the day, a time server corrects a little, and it is right again. */
const offsets: readonly number[] = [0, 2, -2, 60, -60, 3_600, -3_600, 86_400];

async function act(ground: Ground, words: readonly string[]): Promise<boolean> {
  const { code, stdout, stderr } = await ground.say(['emulator', ...words]);
  ground.tell(`${words.join(' ')}: ${(stdout + stderr).trim()}`);
  return code === 0;
}

function nobody(ground: Ground, kind: FaultKind): readonly string[] {
  ground.tell(`${kind}: nobody is there to be struck`);
  return [];
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

function pick<T>(list: readonly T[], where: number): T | undefined {
  return list[Math.floor(where * list.length)];
}

function seconds(ms: number): string {
  return `${Math.max(1, Math.round(ms / 1_000))}s`;
}
