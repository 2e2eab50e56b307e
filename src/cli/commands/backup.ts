import { exitCode, usageError } from '../../app/errors.ts';
import { formatBytes, formatTimestamp, pluralize } from '../../app/format.ts';
import type { BackupFlags, RestoreFlags } from '../table/flags.ts';
import type { Cli } from '../context.ts';

export async function backup(cli: Cli, { withSecrets = false }: BackupFlags, file: string): Promise<number> {
  const saved = await (await cli.services.backups()).save(file, { withSecrets });
  const contents = `${pluralize(saved.jobs, 'job')}, ${pluralize(saved.files, 'file')}, ${formatBytes(saved.size)}`;
  const secrets =
    saved.secretsLeftOut === 0
      ? withSecrets
        ? ' It contains the secrets of the home in clear text.'
        : ''
      : ` ${pluralize(saved.secretsLeftOut, 'file')} with secrets and SSH keys ${saved.secretsLeftOut === 1 ? 'is' : 'are'} not in it: see --with-secrets.`;
  cli.printResult(saved, `Backed up ${cli.services.home} to ${saved.file}: ${contents}.${secrets}`);
  return exitCode.ok;
}

export async function restore(cli: Cli, { takeover = false }: RestoreFlags, file: string | undefined): Promise<number> {
  const backups = await cli.services.backups();
  if (takeover) {
    if (file !== undefined)
      throw usageError('--takeover is a step of its own, and takes no file. Nothing was changed.', [
        `First: jobman restore ${file}`,
        'Then, once the original is stopped for good: jobman restore --takeover',
      ]);
    const taken = await backups.takeOver();
    const message =
      taken === null
        ? `The database of ${cli.services.home} is not closed, so there is nothing to take over.`
        : `Took over the jobs of ${cli.services.home}. New jobs get ids after ${taken.lastId}, because the original may have used those before. Run them: jobman controller start`;
    cli.printResult({ lastId: taken?.lastId ?? null, message }, message);
    return exitCode.ok;
  }
  if (file === undefined) throw usageError('Name the backup: jobman restore FILE');
  const restored = await backups.restore(file);
  cli.printResult(
    restored,
    `Restored ${pluralize(restored.jobs, 'job')} and ${pluralize(restored.files, 'file')} from the backup of ${formatTimestamp(restored.createdAt)}. ` +
      'No controller acts on them yet, because two copies of a home must not control the same TPUs: every change is refused.',
  );
  cli.note('Once no other jobman controls these jobs: jobman restore --takeover');
  if (restored.secretsLeftOut > 0)
    cli.note(
      `The backup has no secrets (${pluralize(restored.secretsLeftOut, 'file')}): store them again with jobman secret set, and copy ssh/ of the original if its TPUs still run.`,
    );
  return exitCode.ok;
}
