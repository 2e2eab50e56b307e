/** The loader of the bundle's chunks, beside what Node would do. */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { useCompiledCode } from '../../src/wiring/compiled-code.ts';

describe('chunks of the bundle', () => {
  let folder = '';
  const packages: string[] = [];
  const require = createRequire(import.meta.url);
  const before = require.extensions['.cjs'];

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'jobman-code-'));
    packages.length = 0;
  });
  afterEach(() => {
    if (before === undefined) delete require.extensions['.cjs'];
    else require.extensions['.cjs'] = before;
    rmSync(folder, { recursive: true });
  });

  const chunk = (name: string, text: string): void => writeFileSync(join(folder, `${name}.cjs`), text);
  /** As a run of a command does it. */
  const start = (): ReturnType<typeof useCompiledCode> =>
    useCompiledCode(join(folder, 'code'), process.pid, () => packages.push('one'));

  it('may need each other, a part of Node, and a package', () => {
    chunk('first', `exports.word = 'one'; const b = require('./second.cjs'); exports.said = () => b.said();`);
    chunk(
      'second',
      `const a = require('./first.cjs'); exports.said = () => [a.word, require('node:path').sep, __dirname];`,
    );
    chunk('third', `exports.parse = require('${require.resolve('yaml')}').parse;`);
    start();
    const { said } = require(join(folder, 'first.cjs')) as { readonly said: () => unknown };
    assert.deepEqual(said(), ['one', '/', folder]);
    assert.deepEqual(packages, []);
    const { parse } = require(join(folder, 'third.cjs')) as {
      readonly parse: (text: string) => unknown;
    };
    assert.deepEqual(parse('a: 1'), { a: 1 });
    assert.deepEqual(packages, ['one']);
  });

  it('are run once, and again where they have failed', (t) => {
    t.after(() => delete (globalThis as { jobmanTimes?: number }).jobmanTimes);
    chunk(
      'once',
      `globalThis.jobmanTimes = (globalThis.jobmanTimes ?? 0) + 1; if (globalThis.jobmanTimes === 1) throw new Error('not yet');`,
    );
    chunk('asker', `exports.ask = () => require('./once.cjs');`);
    start();
    const { ask } = require(join(folder, 'asker.cjs')) as { readonly ask: () => unknown };
    assert.throws(ask, /not yet/);
    assert.equal(ask(), ask());
    assert.equal((globalThis as { jobmanTimes?: number }).jobmanTimes, 2);
  });

  it('are kept as they were compiled until nothing new is used, and a file that is cut short is made anew', () => {
    chunk('plain', `exports.half = (n) => n / 2;`);
    const run = (): void => {
      const compiled = start();
      const path = join(folder, 'plain.cjs');
      delete require.cache[path];
      assert.equal((require(path) as { half(n: number): number }).half(6), 3);
      compiled.save();
    };
    const file = join(folder, 'code');
    const runs = (): unknown =>
      (JSON.parse(readFileSync(file, 'latin1').split('\n')[0] ?? '') as { readonly runs: number }).runs;
    for (let time = 0; time < 3; time += 1) run();
    assert.equal(runs(), 3);
    const { mtimeMs } = statSync(file);
    run();
    assert.equal(statSync(file).mtimeMs, mtimeMs);
    writeFileSync(file, readFileSync(file).subarray(0, -10));
    run();
    assert.equal(runs(), 1);
  });
});
