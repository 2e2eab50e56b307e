// The TPU emulator with simulated hosts: real sockets and real SSH, but no processes. Each script of jobman gets the
// answer that a host with one running program would give, so that one machine can serve a thousand hosts.
// Run it as a process of its own: `node bench/simulated-hosts.ts STATE_FOLDER`.

import { randomUUID } from 'node:crypto';
import { createServer } from 'node:net';
import ssh2, { type ServerChannel } from 'ssh2';
import type { Fleet, FleetOptions } from '../src/emulator/hosts/fleet.ts';
import { listen } from '../src/emulator/hosts/ssh-server.ts';
import { serveEmulator } from '../src/emulator/serve.ts';
import type { NodeRecord, WorkerRecord } from '../src/emulator/world/records.ts';

/** The state of a simulated host: the proven setup steps, and the attempts that run with their start. */
interface SimulatedHost {
  readonly bootId: string;
  readonly proofs: Set<string>;
  readonly attempts: Map<string, number>;
}

interface Reply {
  readonly stdout: string;
  readonly stderr?: string;
}

/** Undefined: the script follows a log, which stays silent. */
function replyTo(script: string, host: SimulatedHost): Reply | undefined {
  const now = Date.now();
  if (script.includes('jobman-observation 1')) {
    const lines = [
      'jobman-observation 1',
      `boot ${host.bootId}`,
      `now ${now}`,
      ...[...host.proofs].map((key) => `proof ${key}`),
      ...[...host.attempts].map(([attempt, startedAt]) => `run ${attempt} running ${startedAt} ${startedAt}`),
      'end',
    ];
    return { stdout: `${lines.join('\n')}\n` };
  }
  const folder = /^folder=attempt_(\d+)$/mu.exec(script)?.[1];
  if (folder !== undefined) {
    if (!host.attempts.has(folder)) host.attempts.set(folder, now);
    return { stdout: 'launch started\n' };
  }
  const step = /is_proven "\$proofs\/([^"]+)"/u.exec(script)?.[1];
  if (step !== undefined) {
    host.proofs.add(step);
    return { stdout: '', stderr: 'step 0\n' };
  }
  if (script.includes('follower=$!')) return undefined;
  return { stdout: 'gone\n' };
}

function answer(channel: ServerChannel, host: SimulatedHost): void {
  let script = '';
  channel.setEncoding('utf8').on('data', (text: string) => (script += text));
  // jobman may have closed the channel before its answer.
  for (const stream of [channel, channel.stderr]) stream.on('error', () => undefined);
  channel.on('end', () => {
    channel.write('jobman begins here\n');
    const reply = replyTo(script, host);
    if (reply === undefined) return;
    channel.stderr.write(reply.stderr ?? '');
    channel.write(reply.stdout);
    channel.exit(0);
    channel.end();
  });
}

async function openHost(worker: WorkerRecord, sshPort: number): Promise<() => void> {
  const host: SimulatedHost = { bootId: randomUUID(), proofs: new Set(), attempts: new Map() };
  const server = new ssh2.Server({ hostKeys: [worker.hostKey], ident: 'OpenSSH_9.2' }, (client) => {
    client.on('error', () => undefined);
    client.on('authentication', (context) => context.accept());
    client.on('session', (accept) => {
      accept().on('exec', (acceptExec) => answer(acceptExec(), host));
    });
  });
  const listener = createServer({ noDelay: true }, (socket) => {
    socket.on('error', () => undefined);
    server.injectSocket(socket);
  });
  await listen(listener, sshPort, worker.address);
  return () => void listener.close();
}

/** Opens a host when its node is ready, and closes it when the node is gone. */
async function openSimulatedFleet({ world, sshPort }: FleetOptions): Promise<Fleet> {
  const hosts = new Map<string, Promise<() => void>>();
  const keyOf = (node: NodeRecord, worker: WorkerRecord): string => `${node.id}/${worker.index}`;
  function sync(): void {
    const wanted = new Set<string>();
    for (const node of world.nodes.values()) {
      if (node.state !== 'READY') continue;
      for (const worker of node.workers) {
        const key = keyOf(node, worker);
        wanted.add(key);
        if (!hosts.has(key)) hosts.set(key, openHost(worker, sshPort));
      }
    }
    for (const [key, closing] of hosts) {
      if (wanted.has(key)) continue;
      hosts.delete(key);
      void closing.then((close) => close());
    }
  }
  world.onChange(sync);
  sync();
  return {
    isDown: (node) => node.workers.every((worker) => !hosts.has(keyOf(node, worker))),
    waitUntilSynced: async () => void (await Promise.all(hosts.values())),
    close: () => Promise.resolve(),
  };
}

const [stateDir = ''] = process.argv.slice(2);
await serveEmulator(
  {
    stateDir,
    env: process.env,
    speed: 40,
    isolation: 'none',
    pid: process.pid,
    write: (text) => process.stdout.write(text),
  },
  openSimulatedFleet,
);
process.once('SIGTERM', () => process.exit(0));
