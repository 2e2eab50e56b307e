/** The certificate and key of a server in files: every problem of them is found at once. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { chmodSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { JobmanError } from '../../src/app/errors.ts';
import { day } from '../../src/core/model/time.ts';
import { readTls } from '../../src/files/certificates.ts';
import { createCertificates } from '../support/certificates.ts';
import { temporaryFolder } from '../support/folder.ts';

test('the files of a server are used if they fit, and otherwise all their problems are reported', (t) => {
  const folder = temporaryFolder(t);
  const [good, other] = ['good', 'other'].map((name) => createCertificates(join(folder, name)));
  assert.ok(good !== undefined && other !== undefined);
  const now = Date.now();
  const files = { certificate: good.certFile, key: good.keyFile };
  assert.deepEqual(readTls(files, now), { cert: good.cert, key: good.key });

  const text = join(folder, 'text');
  writeFileSync(text, 'no certificate\n', { mode: 0o600 });
  const locked = join(folder, 'locked');
  execFileSync('openssl', ['pkcs8', '-topk8', '-in', good.keyFile, '-passout', 'pass:x', '-out', locked]);
  chmodSync(locked, 0o600);
  const open = join(folder, 'open');
  writeFileSync(open, other.key, { mode: 0o644 });
  const cases: readonly (readonly [files: Partial<typeof files>, now: number, problems: readonly RegExp[]])[] = [
    [{ certificate: join(folder, 'none'), key: text }, now, [/none: it does not exist/, /text: .* no private key/]],
    [{ certificate: text, key: folder }, now, [/text: it contains no PEM certificate/, /is a folder/]],
    [{ key: locked }, now, [/has a passphrase/]],
    [{ key: open }, now, [/key of another certificate/, /every user of this machine can read it: chmod o= /]],
    [{}, now + 3 * day, [/its certificate expired on /]],
    [{}, now - 3 * day, [/its certificate is not valid before /]],
  ];
  for (const [given, at, problems] of cases)
    assert.throws(
      () => readTls({ ...files, ...given }, at),
      (error: JobmanError) => {
        assert.equal(error.lines.length, problems.length, error.lines.join('\n'));
        problems.forEach((problem, index) => assert.match(error.lines[index] ?? '', problem));
        return error.code === 2;
      },
    );
});
