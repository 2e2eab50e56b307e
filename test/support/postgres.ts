/**
 * A PostgreSQL server for the tests of one process, started from the installed binaries: without TCP, below the
 * temporary folder, and gone when the process ends, however it ends.
 */
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { chownSync, globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import pg from 'pg';
import { eventually } from './eventually.ts';
import { findProgram, requireReal } from './real.ts';

/** The folder with `initdb` and `postgres`: that of the newest Debian package, or of the PATH. */
function findBinaries(): string | undefined {
  const version = (path: string) => Number(/postgresql\/(\d+)\//.exec(path)?.[1] ?? 0);
  const packaged = globSync('/usr/lib/postgresql/*/bin/initdb').toSorted((a, b) => version(b) - version(a));
  const found = packaged[0] ?? findProgram('initdb');
  return found === undefined ? undefined : dirname(found);
}

export interface PostgresServer {
  /** `user`: a superuser by default. `locked` needs the password `secret`. */
  urlOf(database: string, user?: string): string;
  /** Runs one statement as the superuser. */
  query(statement: string, database?: string): Promise<readonly Record<string, unknown>[]>;
  /** A new database: empty, or a copy of the database `template`. Its texts are in the order of English by default. */
  createDatabase(template?: string): Promise<string>;
  stop(): Promise<void>;
  start(): Promise<void>;
}

let server: Promise<PostgresServer> | undefined;

/** The server of this process, or undefined after a counted skip of the test. The first line of a test or suite. */
export async function requirePostgres(t: { skip(message?: string): void }): Promise<PostgresServer | undefined> {
  const binaries = findBinaries();
  const env = { ...process.env };
  if (env['JOBMAN_REQUIRE_POSTGRES'] === '1') env['JOBMAN_REQUIRE_REAL'] = '1';
  if (!requireReal(t, 'PostgreSQL', binaries, env) || binaries === undefined) return undefined;
  return (server ??= createServer(binaries));
}

async function createServer(binaries: string): Promise<PostgresServer> {
  const folder = mkdtempSync(join(tmpdir(), 'jobman-postgres-'));
  const data = join(folder, 'data');
  // The server refuses to run as root.
  const id = (flag: string) => Number(execFileSync('id', [flag, 'postgres'], { encoding: 'utf8' }));
  const identity = process.getuid?.() === 0 ? { uid: id('-u'), gid: id('-g') } : {};
  if (identity.uid !== undefined) chownSync(folder, identity.uid, identity.gid);
  const options = { ...identity, cwd: folder, env: { PATH: '/usr/bin:/bin', LC_ALL: 'C.UTF-8', TZ: 'UTC' } };
  const initdb = ['-D', data, '-U', 'postgres', '--auth=trust', '--encoding=UTF8', '--locale=C.UTF-8', '--no-sync'];
  const made = spawnSync(join(binaries, 'initdb'), initdb, { ...options, encoding: 'utf8' });
  if (made.status !== 0) throw new Error(`initdb failed: ${made.stderr}`);
  writeFileSync(join(data, 'pg_hba.conf'), 'local all locked scram-sha-256\nlocal all all trust\n');
  const settings = {
    listen_addresses: '',
    unix_socket_directories: folder,
    fsync: 'off',
    max_connections: '200',
    log_min_messages: 'fatal',
  };
  const command = [
    join(binaries, 'postgres'),
    '-D',
    data,
    ...Object.entries(settings).flatMap(([key, value]) => ['-c', `${key}=${value}`]),
  ];
  /** Ends the server when its input is closed, which the kernel does for a process that was killed. */
  const guard = '"$@" & server=$!; cat >/dev/null; kill -QUIT $server; wait $server';
  let running: (() => Promise<unknown>) | undefined;
  let databases = 0;

  const pidOfServer = () => Number(readFileSync(join(data, 'postmaster.pid'), 'utf8').split('\n')[0]);
  async function start(): Promise<void> {
    const child = spawn('sh', ['-c', guard, 'sh', ...command], { ...options, stdio: ['pipe', 'ignore', 'pipe'] });
    let errors = '';
    child.stderr.setEncoding('utf8').on('data', (text: string) => (errors += text));
    const stopped = new Promise((resolve) => child.once('exit', resolve));
    child.unref();
    for (const stream of [child.stdin, child.stderr]) (stream as unknown as { unref(): void }).unref();
    running = () => {
      child.ref();
      child.stdin.destroy();
      return stopped;
    };
    const answered = await eventually(
      () =>
        query('select 1').then(
          () => true,
          () => false,
        ),
      { withinMs: 30_000 },
    );
    if (answered !== true) throw new Error(`PostgreSQL does not start: ${errors}`);
  }

  const urlOf = (database: string, user = 'postgres') =>
    `postgres://${user === 'locked' ? 'locked:secret' : user}@localhost/${database}?host=${folder}`;

  async function query(statement: string, database = 'postgres') {
    const client = new pg.Client({ connectionString: urlOf(database) });
    await client.connect();
    try {
      return (await client.query<Record<string, unknown>>(statement)).rows;
    } finally {
      await client.end();
    }
  }

  process.once('exit', () => {
    try {
      process.kill(pidOfServer(), 'SIGQUIT');
    } catch {
      // It is stopped.
    }
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  });
  await start();
  await query(`create role locked login password 'secret'`);
  return {
    urlOf,
    query,
    async createDatabase(template) {
      databases += 1;
      const name = `test_${databases}`;
      // Another order of texts than that of SQLite, which the store must not depend on.
      const kind = template ?? `template0 locale_provider icu icu_locale 'en' locale 'C.UTF-8'`;
      await query(`create database ${name} template ${kind}`);
      return name;
    },
    async stop() {
      await running?.();
    },
    start,
  };
}
