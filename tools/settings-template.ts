import { createHash } from 'node:crypto';
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';

export interface TemplatePaths {
  readonly source: string;
  readonly file: string;
  readonly checksumFile: string;
}

/** Returns false for an edited file, which stays: it differs from the source and from the last checksum. */
export function publishSettingsTemplate({ source, file, checksumFile }: TemplatePaths): boolean {
  const text = readFileSync(source, 'utf8');
  const current = existsSync(file) ? readFileSync(file, 'utf8') : undefined;
  const writtenChecksum = existsSync(checksumFile) ? readFileSync(checksumFile, 'utf8').trim() : undefined;
  if (current !== undefined && current !== text && checksumOf(current) !== writtenChecksum) return false;
  for (const [path, content] of [
    [file, text],
    [checksumFile, `${checksumOf(text)}\n`],
  ] as const) {
    writeFileSync(`${path}.new`, content);
    renameSync(`${path}.new`, path);
  }
  return true;
}

function checksumOf(content: string): string {
  return createHash('sha256').update(content).digest('hex');
}
