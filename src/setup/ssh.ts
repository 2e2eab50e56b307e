// Ssh: the keys and the ssh_config of a worker, so that it reaches its siblings, and git servers, as the user does.

import { basename } from 'node:path/posix';
import type { SetupStep, StepFile } from '../core/spec.ts';
import { minute } from '../core/time.ts';
import type { SshKey, SshModule } from './modules.ts';
import { quote } from './quote.ts';
import { step } from './step.ts';

/**
 * Writes our blocks into a file of their own, which the worker's config includes first: applying it again changes nothing,
 * and what others wrote into the config stays.
 */
export function sshStep(module: SshModule): SetupStep {
  const entries = module.configEntries.map((entry) => dedent(entry).trimEnd()).filter((entry) => entry !== '');
  const config = entries.length === 0 ? '' : `${entries.join('\n\n')}\n`;
  const publicKeys = module.keys.flatMap(({ publicKey }) => (publicKey === null ? [] : [publicKey]));
  const authorized = module.keys.flatMap(({ publicKey, isAuthorized }) =>
    isAuthorized && publicKey !== null ? [publicKey] : [],
  );
  const inFolder = (files: readonly string[]) => files.map((file) => quote(basename(file))).join(' ');
  const apply = [
    'set -eu',
    'umask 077',
    'mkdir -p "$HOME/.ssh"',
    'chmod 700 "$HOME/.ssh"',
    'cd "$HOME/.ssh"',
    ...(module.keys.length === 0 ? [] : [`chmod 600 -- ${inFolder(module.keys.map(({ privateKey }) => privateKey))}`]),
    ...(publicKeys.length === 0 ? [] : [`chmod 644 -- ${inFolder(publicKeys)}`]),
    ...(authorized.length === 0 ? [] : [addLines(authorized)]),
    ...(config === '' ? [] : [includeConfig]),
  ].join('\n');
  return step({
    name: 'ssh',
    // Keys may change on this machine without a word of the step changing, so they are always written anew.
    check: null,
    apply: `${apply}\n`,
    files: [...module.keys.flatMap(keyFiles), ...(config === '' ? [] : [configFile(config)])],
    timeout: 2 * minute,
  });
}

function keyFiles(key: SshKey): readonly StepFile[] {
  const half = (from: string, mode: number): StepFile => ({
    kind: 'local',
    from,
    to: `~/.ssh/${basename(from)}`,
    mode,
  });
  return [half(key.privateKey, 0o600), ...(key.publicKey === null ? [] : [half(key.publicKey, 0o644)])];
}

function configFile(config: string): StepFile {
  return { kind: 'frozen', base64: Buffer.from(config).toString('base64'), to: '~/.ssh/jobman_config', mode: 0o600 };
}

function addLines(files: readonly string[]): string {
  return `touch authorized_keys
chmod 600 authorized_keys
for file in ${files.map((file) => quote(`./${basename(file)}`)).join(' ')}; do
  key=$(cat "$file")
  if ! grep -qxF -- "$key" authorized_keys; then
    # The last line may lack its end.
    [ -z "$(tail -c 1 authorized_keys)" ] || echo >>authorized_keys
    printf '%s\\n' "$key" >>authorized_keys
  fi
done`;
}

// ssh takes the first value it finds, so ours must come before what stands there; a block would swallow an Include at its end.
const includeConfig = `touch config
if ! grep -qxF 'Include ~/.ssh/jobman_config' config; then
  { echo 'Include ~/.ssh/jobman_config'; cat config; } >config.jobman
  mv config.jobman config
fi
chmod 600 config`;

/** Without the spaces that all its lines begin with. */
function dedent(text: string): string {
  const lines = text.replaceAll('\t', '  ').split('\n');
  const margins = lines.filter((line) => line.trim() !== '').map((line) => line.length - line.trimStart().length);
  const margin = margins.length === 0 ? 0 : Math.min(...margins);
  return lines.map((line) => line.slice(margin)).join('\n');
}
