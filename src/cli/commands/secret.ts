import { resolve } from 'node:path';
import { maxSecretBytes, requireSecretName } from '../../app/secrets.ts';
import type { Client } from '../../app/client.ts';
import { exitCode, messageOf, usageError } from '../../app/errors.ts';
import { formatAge, pluralize } from '../../app/format.ts';
import { formatBinarySize } from '../../manifest/files.ts';
import { readRegularFile } from '../../files/files.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { readHidden } from '../prompt.ts';
import { fittedTable, type Column } from '../render/aligned.ts';
import { columnsOf } from '../screen.ts';
import type { SecretEncryptFlags, SecretFlags } from '../table/flags.ts';

export async function list(cli: Cli): Promise<number> {
  const secrets = await (await cli.services.client()).secrets();
  if (cli.json) {
    cli.printJsonLines(secrets);
    return exitCode.ok;
  }
  if (secrets.length === 0) {
    cli.note('No secrets yet. Store one: jobman secret set NAME');
    return exitCode.ok;
  }
  const columns: readonly Column<(typeof secrets)[number]>[] = [
    { title: 'SECRET', text: ({ name }) => name },
    { title: 'SIZE', side: 'right', text: ({ size }) => formatBinarySize(size) },
    { title: 'CHANGED', text: ({ changedAt }) => formatAge(cli.io.now() - changedAt) },
    { title: 'JOBS', text: ({ usedBy }) => usedBy.map(Number).join(', ') || '-' },
  ];
  cli.printAll(fittedTable(columns, secrets, [], columnsOf(cli.io.stdout)));
  return exitCode.ok;
}

export async function set(cli: Cli, { file, job }: SecretFlags & GlobalFlags, name: string): Promise<number> {
  // First, so that no user types a value that is then refused.
  requireSecretName(name);
  const client = await cli.services.client();
  const value =
    file === undefined
      ? await readHidden(cli, `Value of ${name} (not shown)`, maxSecretBytes)
      : readValueFile(resolve(cli.io.cwd, file));
  const message = job === undefined ? await setNamed(client, name, value) : await setOfJob(client, job, name, value);
  cli.printResult({ secret: name, message }, message);
  return exitCode.ok;
}

async function setNamed(client: Client, name: string, value: Uint8Array): Promise<string> {
  const change = await client.setSecret(name, value);
  const { usedBy = [] } = (await client.secrets()).find((one) => one.name === name) ?? {};
  const note =
    usedBy.length === 0 ? '' : ` ${pluralize(usedBy.length, 'unfinished job')} will get it at the next start.`;
  return `${change === 'added' ? 'Stored the secret' : 'Replaced the value of'} ${name}.${note}`;
}

async function setOfJob(client: Client, job: string, name: string, value: Uint8Array): Promise<string> {
  await client.replaceJobSecret(job, name, value);
  return `Replaced the value of ${name} of job ${job}, which gets it at the next start.`;
}

export async function remove(cli: Cli, _flags: GlobalFlags, name: string): Promise<number> {
  await (await cli.services.client()).deleteSecret(name);
  const message = `Deleted the secret ${name}.`;
  cli.printResult({ secret: name, message }, message);
  return exitCode.ok;
}

export async function encrypt(cli: Cli, { keyFile: file }: SecretEncryptFlags & GlobalFlags): Promise<number> {
  const { keyFile, secrets } = await (await cli.services.secretKeys()).encrypt(file);
  const message = `The secrets of ${cli.services.home} are encrypted in its database, with the key in ${keyFile}. Files that were moved there: ${secrets}.`;
  cli.printResult({ keyFile, secrets, message }, message);
  cli.note(
    'Keep a copy of the key file elsewhere than the backups of the database: without it, no secret can be read.',
  );
  return exitCode.ok;
}

export async function rotateKey(cli: Cli): Promise<number> {
  const { keyFile, secrets, wasInterrupted, keepsOthers } = await (await cli.services.secretKeys()).rotate();
  const message = `${wasInterrupted ? 'Completed the rotation that was interrupted' : 'Replaced the key'} in ${keyFile}. Secrets that were encrypted again: ${secrets}.`;
  cli.printResult({ keyFile, secrets, message }, message);
  if (keepsOthers) cli.note(`No secret needs the other keys of ${keyFile}. Remove them: jobman cannot write the file.`);
  return exitCode.ok;
}

function readValueFile(path: string): Uint8Array {
  try {
    return readRegularFile(path, 1024 * 1024);
  } catch (error) {
    throw usageError(`The file with the value cannot be read: ${messageOf(error)}`);
  }
}
