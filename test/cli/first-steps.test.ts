/** `jobman` alone, its version, and the line about a newer one at the end of a command. */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { root } from '../support/root.ts';
import { jobman, type PretendOptions } from './support/pretend.ts';

test('jobman alone prints its version and the first steps, which are commands and files that are there', async () => {
  const { code, out, err } = await jobman([]);
  assert.deepEqual([code, err], [0, '']);
  assert.match(out, /^jobman 1\.2\.3\n\nA first job\n/);
  const steps = [...out.matchAll(/jobman ([a-z].*)$/gm)].map(([, words = '']) => words.split(' '));
  assert.ok(steps.length >= 5);
  for (const [word = '', ...rest] of steps) {
    assert.equal((await jobman([word, '--help'])).code, 0, word);
    for (const [path] of rest.join(' ').matchAll(/configs\/\S+/g)) assert.ok(existsSync(join(root, path)), path);
  }
  for (const line of out.split('\n')) assert.ok(line.length <= 100, line);
});

test('-v is the version, -h the help', async () => {
  for (const word of ['-v', '--version']) assert.equal((await jobman([word])).out, 'jobman 1.2.3\n');
  const [short, long] = [await jobman(['-h']), await jobman(['--help'])];
  assert.equal(short.out, long.out);
  assert.match(short.out, /^Usage: jobman <command>/);
});

suite('a newer version', () => {
  const terminal = { columns: 80, rows: 24 };
  const sentence = 'jobman 9.0.0 is there; this is 1.2.3.';

  async function ask(words: readonly string[], options: PretendOptions = {}) {
    let asked = 0;
    const newerVersion = async (): Promise<string> => {
      asked += 1;
      return `${sentence}\u001b[2J`;
    };
    const ended = await jobman(words, { ...options, services: { newerVersion } });
    return { ...ended, asked };
  }

  test('is told behind what a command says to somebody at a terminal', async () => {
    for (const words of [[], ['-v'], ['list'], ['why', '7']]) {
      const { err, out } = await ask(words, { terminal });
      assert.ok(err.endsWith(`${String.raw`${sentence}\x1b[2J`}\n`), err);
      assert.ok(!out.includes('9.0.0'));
    }
    assert.equal((await ask(['why', '7'], { terminal })).code, 3, 'and changes no exit code');
  });

  test('is neither told nor looked for elsewhere', async () => {
    assert.equal((await ask(['list'])).asked, 0);
    for (const words of [
      ['list', '--json'],
      ['-q', 'list'],
      ['__complete', 'li'],
    ]) {
      assert.equal((await ask(words, { terminal })).asked, 0, words.join(' '));
    }
  });
});
