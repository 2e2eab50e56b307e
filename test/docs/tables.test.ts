/** The tables of the documents say what the program does. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { problemChecks } from '../../src/lab/solve.ts';
import { passInvariants } from '../../sim/pass-invariants.ts';
import { phases } from '../../src/core/decide/phase.ts';
import { answerFor, budgetOf } from '../../src/core/decide/recover.ts';
import { presets, type PresetName } from '../../src/core/policy/presets.ts';
import type { RuleAnswer, Reason, RecoverySpec, RecoverableReason } from '../../src/core/model/spec.ts';
import { parseManifest } from '../../src/manifest/parse.ts';
import { invariants } from '../../sim/invariants.ts';
import { readDocument } from './documents.ts';

/** The rows of the first table of a page whose header begins with these cells, without header and rule. */
function rowsOf(path: string, ...head: readonly string[]): readonly (readonly string[])[] {
  const lines = readDocument(path).prose.split('\n');
  const cells = (line: string): readonly string[] =>
    line
      .split(/(?<!\\)\|/)
      .slice(1, -1)
      .map((cell) => cell.trim());
  const at = lines.findIndex((line) => head.every((title, index) => cells(line)[index] === title));
  assert.ok(at >= 0, `${path} has no table ${head.join(' | ')}`);
  const end = lines.findIndex((line, index) => index > at && !line.startsWith('|'));
  return lines.slice(at + 2, end).map(cells);
}

const unquoted = (cell: string | undefined): string => (cell ?? '').replaceAll('`', '');
/** Every piece of code in a cell. */
const codesIn = (cell: string | undefined): readonly string[] =>
  [...(cell ?? '').matchAll(/`([^`]*)`/g)].map(([, code = '']) => code);

/** The recovery of a spec whose manifest contains nothing else about it. */
function recoveryOf(text: string): RecoverySpec {
  const result = parseManifest({
    text: `local: {}\ncommand: {run: ls}\n${text}`,
    file: '/somewhere/train.yaml',
    env: {},
    home: '/home/ada',
    files: { inspect: () => ({ kind: 'absent' }), read: () => ({ detail: 'it is not there' }) },
    project: null,
    purpose: 'create',
  });
  assert.ok('spec' in result);
  return result.spec.recovery;
}

suite('docs/recovery.md', () => {
  const names = Object.keys(presets) as PresetName[];

  test('has every preset, with what it answers', () => {
    const formatAnswer = ({ then, on }: RuleAnswer, reason: RecoverableReason): string =>
      then === 'fail' || then === 'done'
        ? then
        : `${then}, ${on} TPU${reason === 'succeeded' && on === 'new' ? '?' : ''}`;
    const rows = rowsOf('docs/recovery.md', 'preset', 'preempted');
    assert.deepEqual(
      rows.map(([name]) => unquoted(name)),
      names,
    );
    for (const [name, ...cells] of rows) {
      const recovery = recoveryOf(`recovery: "${unquoted(name)}"\n`);
      const answer = (reason: RecoverableReason, pattern?: string): string =>
        formatAnswer(
          answerFor(recovery, reason, { message: '', ...(pattern === undefined ? {} : { pattern }) }),
          reason,
        );
      const columns: readonly (readonly string[])[] = [
        [answer('preempted')],
        [answer('unreachable'), answer('command_failed', 'grpc'), answer('command_failed', 'deadline')],
        [answer('setup_failed'), answer('command_failed'), answer('hung')],
        [answer('succeeded')],
      ];
      for (const [index, answers] of columns.entries()) {
        for (const one of answers) assert.equal(cells[index], one, `${name}, column ${index + 1}`);
      }
    }
  });

  test('has every reason, and whose doing it is', () => {
    const rows = rowsOf('docs/recovery.md', 'Reason', 'What happened');
    const doing: Readonly<Record<string, string>> = {
      preemptions: 'the platform',
      failures: 'the program',
      setupFailures: 'the setup',
    };
    const reasons: readonly Reason[] = [
      'succeeded',
      'preempted',
      'unreachable',
      'setup_failed',
      'command_failed',
      'hung',
      'timed_out',
      'budget',
      'allocation_failed',
      'stopped',
    ];
    assert.deepEqual(rows.map(([reason]) => unquoted(reason)).toSorted(), reasons.toSorted());
    for (const [reason, , condition] of rows) {
      const budget = budgetOf(unquoted(reason) as Reason);
      if (budget !== null) assert.equal(condition, doing[budget], `${reason}`);
      else assert.ok(!Object.values(doing).includes(condition ?? ''), `${reason}`);
    }
  });

  test('has every budget, what they count and how large they are', () => {
    for (const [key, counts, size] of rowsOf('docs/recovery.md', 'budget', 'counts')) {
      const name = unquoted(key).replace('recovery.budget.', '');
      const budget = (name === 'setup_failures' ? 'setupFailures' : name) as keyof RecoverySpec['budget'];
      for (const reason of codesIn(counts)) assert.equal(budgetOf(reason as Reason), budget, reason);
      const [usual, loops] = [...(size ?? '').matchAll(/\d{2,}|\b\d\b/g)].map(([number]) => Number(number));
      assert.equal(recoveryOf('recovery: pass\n').budget[budget], usual);
      assert.equal(recoveryOf('recovery: "loop: failures"\n').budget[budget], loops ?? usual);
      assert.equal(recoveryOf('recovery: "loop: true"\n').budget[budget], loops ?? usual);
    }
  });
});

test('docs/tpu.md has every case of solve, in their order', () => {
  const rows = rowsOf('docs/tpu.md', 'Problem', 'What `solve` does');
  assert.deepEqual(
    rows.map(([name]) => unquoted(name)),
    Object.keys(problemChecks),
  );
});

test('docs/getting-started.md has every phase', () => {
  const documented = rowsOf('docs/getting-started.md', 'Phase').flatMap(([cell]) => codesIn(cell));
  assert.deepEqual(documented.toSorted(), [...phases].toSorted());
});

test('CONTRIBUTING.md has every invariant, by its number and name', () => {
  const documented = rowsOf('CONTRIBUTING.md', '', 'invariant').map(([number, name]) => `${number} ${name}`);
  assert.deepEqual(
    documented,
    Object.entries(invariants).map(([number, name]) => `${number} ${name}`),
  );
  for (const { number, name } of passInvariants) assert.ok(documented.includes(`${number} ${name}`), name);
});
