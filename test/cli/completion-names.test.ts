/** Names that other people and servers choose are words for a shell to complete, never commands or lines of their own. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { proposalLines } from '../../src/cli/completion/proposals.ts';
import { completionScript } from '../../src/cli/commands/help.ts';

test('a name with a control character is not proposed, and a meaning with one is one line', () => {
  const lines = proposalLines([
    { word: 'plain', summary: 'one\ntwo\t\u001b]0;x\u0007' },
    { word: 'a\nb', summary: '' },
    { word: 'c\u001b[2J', summary: '' },
    { word: 'd\u202e', summary: '' },
    { word: 'e\tf', summary: '' },
    { word: '', summary: 'nothing' },
    { word: '$(x)', summary: 'odd' },
  ]);
  assert.equal(lines, 'plain\tone\\x0atwo \\x1b]0;x\\x07\n$(x)\todd\n');
});

test('bash puts names on the line quoted', { skip: spawnSync('bash', ['-c', ':']).status !== 0 }, (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'jobman-completion-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const names = [
    '$(touch${IFS}PWN)',
    'a;touch${IFS}PWN',
    '`touch${IFS}PWN`',
    "c'd",
    '*',
    '~root',
    'back\\slash',
    'x&y',
    'plain',
  ];
  writeFileSync(join(folder, 'answers'), names.map((name) => `${name}\ta job\n`).join(''));
  writeFileSync(
    join(folder, 'script'),
    `${completionScript('bash')}
jobman() { cat answers; }
COMP_LINE='jobman show '; COMP_POINT=\${#COMP_LINE}
_jobman
for word in "\${COMPREPLY[@]}"; do eval "printf '%s\\n' $word"; done
COMP_LINE='jobman list --phase='; COMP_POINT=\${#COMP_LINE}
printf -- '--phase=$(touch\${IFS}PWN)\\t\\n' >answers
_jobman
printf '%s\\n' "\${COMPREPLY[@]}"
`,
  );
  const { stdout, stderr } = spawnSync('bash', ['--norc', 'script'], { cwd: folder, encoding: 'utf8' });
  assert.equal(stderr, '');
  assert.deepEqual(stdout.trimEnd().split('\n'), [...names, '\\$\\(touch\\$\\{IFS\\}PWN\\)']);
  assert.equal(existsSync(join(folder, 'PWN')), false);
});
