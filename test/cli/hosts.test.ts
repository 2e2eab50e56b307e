// Commands on workers, with fake workers: requests, output and exit codes.

import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type {
  CopyEnd,
  CopyRequest,
  Session,
  SessionEnd,
  SessionRequest,
  WorkerAccess,
} from '../../src/app/worker-access.ts';
import { parseWorkers } from '../../src/cli/parse.ts';
import { jsonLines, jobman, createCliHarness, jobView, now, type CliHarnessOptions } from './support/harness.ts';
import { aTicket } from '../support/builders.ts';
import { run } from '../support/output-schema.ts';

type Responder = (worker: number, request: SessionRequest, asked: Asked) => Promise<SessionEnd>;

interface Asked {
  stopped: boolean;
  readonly onStop: (call: () => void) => void;
  /** All input, once it has ended. */
  readonly input: Promise<string>;
}

const well: SessionEnd = { kind: 'ended', exitCode: 0, signal: null };

function workerAccess(
  count: number,
  respond: Responder,
  copies: Partial<Pick<WorkerAccess, 'put' | 'get'>> = {},
): WorkerAccess {
  const none = (): Promise<CopyEnd> => Promise.reject(new Error('this test copies nothing'));
  return {
    ticket: aTicket(count),
    start(worker, request): Session {
      const calls: (() => void)[] = [];
      const written: Buffer[] = [];
      let ended: (text: string) => void = () => undefined;
      const asked: Asked = {
        stopped: false,
        onStop: (call) => calls.push(call),
        input: new Promise((resolve) => (ended = resolve)),
      };
      return {
        write: async (bytes) => void written.push(Buffer.from(bytes)),
        end: () => ended(Buffer.concat(written).toString()),
        resize: () => undefined,
        stop() {
          asked.stopped = true;
          for (const call of calls) call();
        },
        ended: respond(worker, request, asked),
      };
    },
    put: copies.put ?? none,
    get: copies.get ?? none,
    tunnel: () => Promise.reject(new Error('this test has no tunnel')),
    ssh: {
      hosts: async () => [
        { worker: 0, host: '10.0.0.1', options: [['User', 'alice']] },
        { worker: 1, host: '10.0.0.2', options: [['User', 'alice']] },
      ],
      argv: () => Promise.reject(new Error('this test has no shell')),
    },
    close: () => undefined,
  };
}

function prints(texts: readonly string[], ends: readonly SessionEnd[] = []): Responder {
  return async (worker, { onBytes }) => {
    await onBytes(Buffer.from(texts[worker] ?? ''), 'stdout');
    return ends[worker] ?? well;
  };
}

function options(workers: WorkerAccess, more: CliHarnessOptions = {}): CliHarnessOptions {
  return { jobs: [jobView()], services: { workers: async () => workers }, ...more };
}

const terminal = { columns: 80, rows: 24 };

test('ssh-config writes no value that would begin a line of its own', async () => {
  const hosts = async () => [
    { worker: 0, host: 'h', options: [['User', 'a\n  ProxyCommand touch PWN']] as [string, string][] },
  ];
  const { code, out } = await jobman(
    ['ssh-config', '42'],
    options({ ...workerAccess(1, prints([])), ssh: { hosts, argv: () => assert.fail() } }),
  );
  assert.equal(code, 1);
  assert.equal(out, '');
});

suite('exec', () => {
  test('passes one argument as a line for a shell, and several unchanged', async () => {
    const seen: unknown[] = [];
    const workers = workerAccess(1, async (_worker, { program, hasInput, environment }) => {
      seen.push([program, hasInput, environment]);
      return well;
    });
    await jobman(['exec', '42', '--', 'echo $HOME | cat'], options(workers));
    await jobman(['exec', '42', '--', 'echo', '$HOME', 'a b', '--json'], options(workers));
    assert.deepEqual(seen, [
      [{ kind: 'line', line: 'echo $HOME | cat' }, false, 'host'],
      [{ kind: 'argv', argv: ['echo', '$HOME', 'a b', '--json'] }, false, 'host'],
    ]);
  });

  test('puts the worker in front of every whole line where there is no terminal, byte for byte', async () => {
    const workers = workerAccess(2, async (worker, { onBytes }) => {
      await onBytes(Buffer.from('one\nt'), 'stdout');
      await onBytes(Buffer.from(worker === 0 ? 'wo\nlast' : 'wo'), 'stdout');
      return well;
    });
    const { code, out, err } = await jobman(['exec', '42', '--', 'x'], options(workers));
    assert.equal(code, 0);
    assert.deepEqual(out.trimEnd().split('\n').toSorted(), ['[0] last', '[0] one', '[0] two', '[1] one', '[1] two']);
    assert.equal(err, '');
  });

  test('prints the bytes of a single worker as they are', async () => {
    const { out } = await jobman(['exec', '42', '--', 'x'], options(workerAccess(1, prints(['no end \u001b[2J']))));
    assert.equal(out, 'no end \u001b[2J');
  });

  test('draws a line that all print once on a terminal, and says where they agree', async () => {
    const workers = workerAccess(4, prints(['alike\n', 'alike\n', 'odd\u001b[2J\n', 'alike\n']));
    const { code, out, err } = await jobman(['exec', '42', '--', 'x'], options(workers, { terminal }));
    assert.equal(code, 0);
    assert.deepEqual(out.trimEnd().split('\n').toSorted(), ['[0-1,3] alike', '[2]   odd\\x1b[2J']);
    assert.match(err, /-- same on 3\/4; different on \[2\]/);
  });

  test('exits with the highest exit code, and names each failure and each worker that was not reached', async () => {
    const ends: SessionEnd[] = [
      well,
      { kind: 'ended', exitCode: 3, signal: null },
      { kind: 'ended', exitCode: null, signal: 'KILL' },
    ];
    const died = await jobman(['exec', '42', '--', 'x'], options(workerAccess(3, prints([], ends))));
    assert.equal(died.code, 137);
    assert.match(died.err, /exit code 0 on \[0\]; exit code 3 on \[1\]; ended by SIGKILL on \[2\]/);
    const silent: SessionEnd = { kind: 'unreachable', reason: '10.0.0.3:22 refuses connections', mayHaveRun: false };
    const lost = await jobman(['exec', '42', '--', 'x'], options(workerAccess(3, prints([], [well, well, silent]))));
    assert.equal(lost.code, 255);
    assert.match(lost.err, /\[2\]: not reached: 10\.0\.0\.3:22 refuses connections/);
  });

  test('gives one object a worker, with what is not text in base64', async () => {
    const workers = workerAccess(2, async (worker, { onBytes }) => {
      await onBytes(worker === 0 ? Buffer.from('grün') : Buffer.from([255, 0]), 'stdout');
      return well;
    });
    const { out } = await jobman(['exec', '42', '--json', '--', 'x'], options(workers));
    const rows = jsonLines<Record<string, unknown>>(out);
    const ended = {
      pod: null,
      exitCode: 0,
      signal: null,
      timedOut: false,
      unreachable: false,
      message: null,
      stderr: '',
      stderrBase64: null,
    };
    assert.deepEqual(rows, [
      { worker: 0, ...ended, stdout: 'grün', stdoutBase64: null },
      { worker: 1, ...ended, stdout: null, stdoutBase64: '/wA=' },
    ]);
  });

  test('ends what takes longer than its time, on the workers too', async () => {
    const stopped: number[] = [];
    const workers = workerAccess(2, (worker, _request, asked) =>
      worker === 0
        ? Promise.resolve(well)
        : new Promise((resolve) => {
            asked.onStop(() => {
              stopped.push(worker);
              resolve({ kind: 'ended', exitCode: null, signal: 'TERM' });
            });
          }),
    );
    const { code, err } = await jobman(['exec', '42', '--timeout', '1s', '--', 'x'], options(workers));
    assert.equal(code, 124);
    assert.deepEqual(stopped, [1]);
    assert.match(err, /\[1\]: its time was over/);
  });

  test('is ended by Ctrl-C on the workers too, and left by a second one', async () => {
    let stops = 0;
    const workers = workerAccess(1, (_worker, _request, asked) => {
      asked.onStop(() => (stops += 1));
      return new Promise(() => undefined);
    });
    const world = createCliHarness(options(workers));
    const over = run(['exec', '42', '--', 'x'], world.services);
    for (let tries = 0; stops === 0 && tries < 1_000; tries += 1) {
      await new Promise((resolve) => setImmediate(resolve));
      world.signal();
    }
    world.signal();
    assert.equal(await over, 130);
    assert.ok(stops > 0);
  });

  test('gives our input to one worker, and refuses it to several', async () => {
    const got: string[] = [];
    const workers = workerAccess(2, async (_worker, { hasInput }, asked) => {
      if (hasInput) got.push(await asked.input);
      return well;
    });
    const input = ['one', 'two'];
    const given = await jobman(['exec', '42', '-w', '1', '--stdin', '--', 'cat'], options(workers, { input }));
    assert.equal(given.code, 0);
    assert.deepEqual(got, ['one\ntwo\n']);
    const refused = await jobman(['exec', '42', '--stdin', '--', 'cat'], options(workers, { input }));
    assert.equal(refused.code, 2);
    assert.match(refused.err, /--stdin is for one worker/);
  });

  test('refuses what makes no sense before anything is asked of a worker', async () => {
    const untouched = workerAccess(2, () => Promise.reject(new Error('a worker was asked')));
    for (const [args, why] of [
      [['42'], /Which command\?/],
      [['42', '--', '-w', '0', 'hostname'], /^jobman: -w is not a command\. Flags of exec come before `--`/],
      [['42', '--', '--help'], /--help is not a command/],
      [['42', '-w', '2', '--', 'x'], /no worker 2; its workers are 0 to 1/],
      [['42', '--in-container', '--', 'x'], /runs in no container/],
    ] as const) {
      const { code, err } = await jobman(['exec', ...args], options(untouched));
      assert.equal(code, 2);
      assert.match(err, why);
    }
  });
});

test('workers are named one by one or in ranges', () => {
  assert.equal(parseWorkers('all'), 'all');
  assert.deepEqual(parseWorkers('0,4-7'), [
    [0, 0],
    [4, 7],
  ]);
  for (const wrong of ['', '1-', '3-1', 'a', '1,,2']) assert.throws(() => parseWorkers(wrong), /expected `all`/);
});

suite('cp', () => {
  function copying(count: number, end: (worker: number) => CopyEnd) {
    const asked: (readonly [way: string, worker: number, from: string, to: string])[] = [];
    const way =
      (name: string) =>
      async (worker: number, { from, to, onProgress }: CopyRequest) => {
        asked.push([name, worker, from, to]);
        onProgress(10);
        return end(worker);
      };
    return { asked, workers: workerAccess(count, prints([]), { put: way('put'), get: way('get') }) };
  }
  const done = (): CopyEnd => ({ kind: 'done', path: '/there' });

  test('takes several sources to all workers', async () => {
    const { asked, workers } = copying(2, done);
    const { code, err } = await jobman(['cp', 'a', './b:c', '42:dir/'], options(workers));
    assert.equal(code, 0);
    assert.deepEqual(
      asked.toSorted((one, other) => one.join().localeCompare(other.join())),
      [
        ['put', 0, './b:c', 'dir/'],
        ['put', 0, 'a', 'dir/'],
        ['put', 1, './b:c', 'dir/'],
        ['put', 1, 'a', 'dir/'],
      ],
    );
    assert.match(err, /Copied 40 bytes .* 2 workers/);
  });

  test('reports the size of the files and their speed, not those of the archive', async () => {
    const { workers } = copying(1, () => ({ ...done(), bytes: 6 }));
    let time = now;
    const { err } = await jobman(['cp', '42:a', '.'], { ...options(workers), now: () => (time += 1_000) });
    const [, seconds, speed] = /^Copied 6 bytes in ([\d.]+)s \(([\d.]+) bytes\/s\), 1 worker\.$/m.exec(err) ?? [];
    assert.equal(Number(speed), Math.round(6 / Number(seconds)), err);
  });

  test('gives each of several workers a folder of its own, and a single one none', async () => {
    const { asked, workers } = copying(2, done);
    await jobman(['cp', '42:log', 'out'], options(workers));
    await jobman(['cp', '42:log', 'out', '-w', '1'], options(workers));
    assert.deepEqual(asked, [
      ['get', 0, 'log', 'out/worker-0/'],
      ['get', 1, 'log', 'out/worker-1/'],
      ['get', 1, 'log', 'out'],
    ]);
  });

  test('says once what went wrong on several, and ends with what kind of trouble it was', async () => {
    const inTheWay = copying(3, (worker) =>
      worker === 0 ? done() : { kind: 'failed', cause: 'conflict', reason: '~/data exists' },
    );
    const { code, err } = await jobman(['cp', 'data', '42:'], options(inTheWay.workers));
    assert.equal(code, 4);
    assert.equal(err, 'jobman: [1-2] ~/data exists; --replace replaces it with the copy.\nCopied: 1 of 3 workers.\n');
  });

  test('reports how much of a failed copy was made, or that nothing was', async () => {
    for (const failed of [
      { kind: 'unreachable', reason: 'connection refused' },
      { kind: 'failed', cause: 'missing', reason: 'there is no log' },
    ] as const) {
      const inPart = copying(2, (worker) => (worker === 0 ? done() : failed));
      const { err } = await jobman(['cp', '42:log', 'out'], options(inPart.workers));
      assert.doesNotMatch(err, /nothing was copied/i);
      assert.match(err, /\nCopied: 1 of 2 workers\.\n$/);
      const several = await jobman(['cp', '42:log', '42:other', 'out'], options(inPart.workers));
      assert.match(several.err, /\nCopied: 2 of 4 copies\.\n$/);
      const none = await jobman(['cp', '42:log', 'out'], options(copying(2, () => failed).workers));
      assert.match(none.err, /^jobman: \[0-1\] .*\nNothing was copied\.\n$/);
    }
  });

  test('refuses two sides of one kind, and a path that is empty', async () => {
    for (const args of [['a', 'b'], ['42:a', '42:b'], ['42:a', '43:b', '.'], ['a'], ['', '42:'], ['42:a', '']]) {
      const { code } = await jobman(['cp', ...args], options(copying(1, done).workers));
      assert.equal(code, 2, args.join(' '));
    }
  });
});

test('ssh-config names each worker, and the first one twice', async () => {
  const { out } = await jobman(['ssh-config', '42'], options(workerAccess(2, prints([]))));
  assert.equal(
    out,
    'Host jobman-42-0 jobman-42\n  HostName 10.0.0.1\n  User alice\n\nHost jobman-42-1\n  HostName 10.0.0.2\n  User alice\n\n',
  );
});

test('port-forward says what is not a port', async () => {
  for (const arg of ['x', '0', '70000', '8080:', '1:2:3']) {
    const { code, err } = await jobman(['port-forward', '42', arg], options(workerAccess(1, prints([]))));
    assert.equal(code, 2);
    assert.match(err, /is not a port: expected 6006/);
  }
});
