// The template of settings in dist/, which whoever installs jobman may edit there: a build never overwrites an edited one.

import { createHash } from 'node:crypto';
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';

/** Where the template of the source is, where it is to stand, and where the sum of what was written last is kept. */
export interface TemplatePlaces {
  readonly source: string;
  readonly file: string;
  readonly mark: string;
}

/**
 * Writes the template, as long as what stands there is by its sum what was written last, or nothing. False when somebody
 * has edited it, so that it was left alone. What is the same as the source, however it came there, counts as written.
 */
export function publishSettings({ source, file, mark }: TemplatePlaces): boolean {
  const text = readFileSync(source, 'utf8');
  const there = existsSync(file) ? readFileSync(file, 'utf8') : undefined;
  const written = existsSync(mark) ? readFileSync(mark, 'utf8').trim() : undefined;
  if (there !== undefined && there !== text && sumOf(there) !== written) return false;
  for (const [path, content] of [
    [file, text],
    [mark, `${sumOf(text)}\n`],
  ] as const) {
    writeFileSync(`${path}.new`, content);
    renameSync(`${path}.new`, path);
  }
  return true;
}

function sumOf(content: string): string {
  return createHash('sha256').update(content).digest('hex');
}
