/** Servers of jobman as processes, each behind a connection to PostgreSQL that a test cuts, delays or leads elsewhere. */
import assert from 'node:assert/strict';
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { appendFileSync, mkdirSync, readFileSync } from 'node:fs';
import { connect, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { eventually } from './eventually.ts';
import { jobmanCommand } from './jobman.ts';
import type { World } from './world.ts';

/**
 * A socket of PostgreSQL in a folder of its own. A cut connection delivers nothing, and its ends notice nothing. A delay
 * is that of each packet in each direction.
 */
export async function openPostgresProxy(world: World, name: string, target: string) {
  const folder = join(world.folder, name);
  mkdirSync(folder);
  const pairs = new Set<readonly [Socket, Socket]>();
  let [current, isCut, delayMs] = [target, false, 0];
  const server = createServer((from) => {
    const to = connect(current);
    const pair = [from, to] as const;
    pairs.add(pair);
    for (const [one, other] of [pair, pair.toReversed() as [Socket, Socket]]) {
      let due = 0;
      one.on('data', (bytes) => {
        const now = performance.now();
        due = Math.max(due, now + delayMs);
        if (due <= now) other.write(bytes);
        else setTimeout(() => other.write(bytes), due - now);
      });
      one.on('error', () => undefined);
      one.on('close', () => {
        other.destroy();
        pairs.delete(pair);
      });
      if (isCut) one.pause();
    }
  });
  await once(server.listen(join(folder, '.s.PGSQL.5432')), 'listening');
  const drop = (): void => [...pairs].flat().forEach((one) => one.destroy());
  world.atEnd(() => {
    drop();
    server.close();
  });
  return {
    folder,
    cut(isNow: boolean): void {
      isCut = isNow;
      for (const one of [...pairs].flat()) {
        if (isNow) one.pause();
        else one.resume();
      }
    },
    delay: (ms: number): void => void (delayMs = ms),
    /** Closes all connections. */
    drop,
    /** New connections lead to the socket of another server. */
    lead: (socket: string): void => void (current = socket),
  };
}

export interface ServerProcess {
  readonly name: string;
  readonly url: string;
  readonly home: string;
  /** With another program, such as a newer version. */
  readonly start: (program?: readonly string[]) => Promise<void>;
  readonly proxy: Awaited<ReturnType<typeof openPostgresProxy>>;
  child: ChildProcess | undefined;
}

export function serverOf(
  world: World,
  given: Pick<ServerProcess, 'name' | 'home' | 'proxy'> & {
    readonly port: number;
    readonly database: string;
    readonly env?: Readonly<Record<string, string>>;
  },
): ServerProcess {
  const { name, home, proxy, port, database, env = {} } = given;
  mkdirSync(home, { recursive: true, mode: 0o700 });
  const server: ServerProcess = {
    name,
    home,
    proxy,
    url: `http://127.0.0.1:${port}`,
    child: undefined,
    async start(program = jobmanCommand) {
      const [file = '', ...args] = program;
      const child = spawn(file, [...args, 'server', '--listen', `127.0.0.1:${port}`], {
        cwd: world.folder,
        env: {
          ...world.env,
          JOBMAN_HOME: home,
          JOBMAN_DATABASE: `postgres://postgres@localhost/${database}?host=${proxy.folder}`,
          ...env,
        },
        stdio: ['ignore', 'pipe', 'pipe'],
      });
      server.child = child;
      for (const stream of [child.stdout, child.stderr])
        stream.on('data', (bytes: Buffer) => appendFileSync(join(home, 'server.log'), bytes));
      const isReady = () =>
        fetch(`${server.url}/readyz`).then(
          ({ ok }) => ok,
          () => false,
        );
      const log = () => readFileSync(join(home, 'server.log'), 'utf8').slice(-2_000);
      assert.ok(await eventually(isReady, { withinMs: 60_000 }), `${name} does not start:\n${log()}`);
    },
  };
  world.atEnd(async () => {
    const { child } = server;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    child.kill('SIGCONT');
    child.kill('SIGTERM');
    await once(child, 'exit');
  });
  return server;
}

/** The environment of a command that uses that server. */
export const remoteEnv = ({ url }: ServerProcess, token: string) => ({
  JOBMAN_SERVER: url,
  JOBMAN_TOKEN: token,
  JOBMAN_DATABASE: '',
});
