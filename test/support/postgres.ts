/**
 * A PostgreSQL server for the tests of one process, started from the installed binaries: without TCP, below the
 * temporary folder, and gone when the process ends, however it ends.
 */
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { chownSync, existsSync, globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import pg from 'pg';
import { openStore } from '../../src/store/store.ts';
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
  /** A new database without tables, in which texts have the order of English. */
  createDatabase(): Promise<string>;
  /** The URL of a database with tables and without rows, which the next call empties: a new one takes half a second. */
  emptyDatabase(): Promise<string>;
  /** `immediate`, unless another mode is given: the next start recovers the data from the log. */
  stop(mode?: 'fast'): Promise<void>;
  start(): Promise<void>;
}

interface ServerOptions {
  /** Settings of the server. `listen_addresses` opens TCP to the role `locked` over TLS only. */
  readonly settings?: Readonly<Record<string, string>>;
  /** An existing folder for the data, such as a small disk; the log of changes stays elsewhere. */
  readonly data?: string;
  /** Its standby, which can only be read until `select pg_promote()`. */
  readonly standbyOf?: PostgresServer;
}

/** The rows that the migrations have inserted, apart from the installation id. */
const saveRows = `
  create schema saved;
  create table saved.counter as table counter;
  create table saved.lease as table lease`;

const restoreRows = `
  set session_replication_role = replica;
  do $$ declare name text; begin
    for name in select tablename from pg_tables where schemaname = 'public' and tablename <> 'migration' loop
      execute format('delete from %I', name);
    end loop;
  end $$;
  insert into counter table saved.counter;
  insert into lease table saved.lease`;

let server: Promise<PostgresServer> | undefined;

/** The server of this process, or undefined after a counted skip of the test. Use it as `requireReal`. */
export async function requirePostgres(t: { skip(message?: string): void }): Promise<PostgresServer | undefined> {
  const binaries = findBinaries();
  const isRequired = [process.env['JOBMAN_REQUIRE_REAL'], process.env['JOBMAN_REQUIRE_POSTGRES']].includes('1');
  const env = { JOBMAN_REQUIRE_REAL: isRequired ? '1' : undefined };
  if (!requireReal(t, 'PostgreSQL', binaries, env) || binaries === undefined) return undefined;
  return (server ??= createServer(binaries));
}

/** A server for one test, which stops it. */
export async function startPostgres(
  t: { skip(message?: string): void },
  options: ServerOptions,
): Promise<PostgresServer | undefined> {
  const binaries = findBinaries();
  if (!requireReal(t, 'PostgreSQL', binaries) || binaries === undefined) return undefined;
  return createServer(binaries, options);
}

async function createServer(binaries: string, given: ServerOptions = {}): Promise<PostgresServer> {
  const folder = mkdtempSync(join(tmpdir(), 'jobman-postgres-'));
  const data = join(given.data ?? folder, 'data');
  // The server refuses to run as root.
  const id = (flag: string) => Number(execFileSync('id', [flag, 'postgres'], { encoding: 'utf8' }));
  const identity = process.getuid?.() === 0 ? { uid: id('-u'), gid: id('-g') } : {};
  if (identity.uid !== undefined)
    for (const one of [folder, given.data ?? folder]) chownSync(one, identity.uid, identity.gid);
  const options = { ...identity, cwd: folder, env: { PATH: '/usr/bin:/bin', LC_ALL: 'C.UTF-8', TZ: 'UTC' } };
  const initdb = ['-D', data, '-U', 'postgres', '--auth=trust', '--encoding=UTF8', '--locale=C.UTF-8', '--no-sync'];
  if (given.data !== undefined) initdb.push('--waldir', join(folder, 'wal'));
  const source =
    given.standbyOf === undefined ? null : new URL(given.standbyOf.urlOf('postgres')).searchParams.get('host');
  const copy = ['-h', source ?? '', '-U', 'postgres', '-D', data, '-R', '-c', 'fast', '--no-sync'];
  const [program, args] = source === null ? ['initdb', initdb] : ['pg_basebackup', copy];
  const made = spawnSync(join(binaries, program), args, { ...options, encoding: 'utf8' });
  if (made.status !== 0) throw new Error(`${program} failed: ${made.stderr}`);
  writeFileSync(
    join(data, 'pg_hba.conf'),
    'local all locked scram-sha-256\nlocal all,replication all trust\nhostssl all locked 127.0.0.1/32 scram-sha-256\n',
  );
  const settings = {
    listen_addresses: '',
    unix_socket_directories: folder,
    fsync: 'off',
    max_connections: '200',
    log_min_messages: 'fatal',
    ...given.settings,
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
  let emptied: string | undefined;

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
    `postgres://${user === 'locked' ? 'locked:secret' : user}@localhost:${given.settings?.['port'] ?? 5432}/${database}?host=${folder}`;

  async function query(statement: string, database = 'postgres') {
    const client = new pg.Client({ connectionString: urlOf(database) });
    await client.connect();
    try {
      return (await client.query<Record<string, unknown>>(statement)).rows;
    } finally {
      await client.end();
    }
  }

  async function createDatabase(): Promise<string> {
    databases += 1;
    const name = `test_${databases}`;
    // Another order than that of SQLite, which the store must not depend on.
    await query(`create database ${name} template template0 locale_provider icu icu_locale 'en' locale 'C.UTF-8'`);
    return name;
  }

  process.once('exit', () => {
    try {
      const pid = pidOfServer();
      process.kill(pid, 'SIGQUIT');
      // It writes into its folder until its end, for 5 s at most.
      for (let checks = 0; checks < 500; checks += 1) {
        process.kill(pid, 0);
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 10);
      }
    } catch {
      // It has stopped.
    }
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  });
  await start();
  if (source === null) await query(`create role locked login password 'secret'`);
  return {
    urlOf,
    query,
    createDatabase,
    async emptyDatabase() {
      if (emptied === undefined) {
        emptied = await createDatabase();
        const store = openStore({ url: urlOf(emptied) });
        await store.installationId();
        await store.close();
        await query(saveRows, emptied);
      }
      await query(restoreRows, emptied);
      return urlOf(emptied);
    },
    async stop(mode) {
      if (mode === 'fast') {
        process.kill(pidOfServer(), 'SIGINT');
        await eventually(() => !existsSync(join(data, 'postmaster.pid')));
      }
      await running?.();
    },
    start,
  };
}
