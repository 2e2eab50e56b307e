import { digestOf } from '../catalogue/digest.ts';
import { minute } from '../core/model/time.ts';
import type { FilesModule, SshKey, SshModule } from './modules.ts';
import { quote } from '../catalogue/shell.ts';
import { createStep } from './script.ts';
import type { SetupStep, StepFile } from '../core/model/spec.ts';
import { workdirKey } from '../core/model/job.ts';

/** The check compares the checksum of every file. The apply repeats it after the copy. */
export function filesStep(module: FilesModule): SetupStep {
  const files = module.files.map(({ to, content, mode }) => {
    return { kind: 'blob', blob: digestOf(content), to, mode } as const;
  });
  const sums = files.map(({ to, blob }) => {
    // Paths start at the login folder. The parser ensures that each is one line.
    return `${blob.slice('sha256:'.length)}  ${to.startsWith('~/') ? `./${to.slice(2)}` : to}`;
  });
  const compare = `cd "$HOME" || exit 1\nsha256sum --check --quiet <<'JOBMAN_END'\n${sums.join('\n')}\nJOBMAN_END\n`;
  return createStep({
    name: 'files',
    check: compare,
    apply: `${compare}code=$?\n[ "$code" -eq 0 ] || echo 'These files are not the same as the files that jobman sent.' >&2\nexit "$code"\n`,
    files,
    timeoutMs: 5 * minute,
  });
}

/** Our entries are a separate file, which the worker's config includes first; other users' entries stay unchanged. */
export function sshStep(module: SshModule): SetupStep {
  const entries = module.configEntries.map((entry) => dedent(entry).trimEnd()).filter((entry) => entry !== '');
  const config = entries.length === 0 ? '' : `${entries.join('\n\n')}\n`;
  const publicKeys = module.keys.flatMap(({ publicKey }) => (publicKey === null ? [] : [publicKey.file]));
  const authorized = module.keys.flatMap(({ publicKey, isAuthorized }) =>
    isAuthorized && publicKey !== null ? [publicKey.file] : [],
  );
  const inFolder = (files: readonly string[]) => files.map((file) => quote(file)).join(' ');
  const apply = [
    'set -eu',
    'umask 077',
    'mkdir -p "$HOME/.ssh"',
    'chmod 700 "$HOME/.ssh"',
    'cd "$HOME/.ssh"',
    ...(module.keys.length === 0 ? [] : [`chmod 600 -- ${inFolder(module.keys.map(({ file }) => file))}`]),
    ...(publicKeys.length === 0 ? [] : [`chmod 644 -- ${inFolder(publicKeys)}`]),
    ...(authorized.length === 0 ? [] : [authorizeKeys(authorized)]),
    ...(config === '' ? [] : [includeConfig]),
  ].join('\n');
  return createStep({
    name: 'ssh',
    // A secret may get another value while the step stays the same, so every setup copies the keys.
    check: null,
    apply: `${apply}\n`,
    files: [...module.keys.flatMap(keyFiles), ...(config === '' ? [] : [configFile(config)])],
    timeoutMs: 2 * minute,
  });
}

function keyFiles({ file, privateKey, publicKey }: SshKey): readonly StepFile[] {
  const key: StepFile = { kind: 'secret', secret: privateKey, to: `~/.ssh/${file}`, mode: 0o600 };
  if (publicKey === null) return [key];
  const base64 = Buffer.from(publicKey.text).toString('base64');
  return [key, { kind: 'inline', base64, to: `~/.ssh/${publicKey.file}`, mode: 0o644 }];
}

function configFile(config: string): StepFile {
  return { kind: 'inline', base64: Buffer.from(config).toString('base64'), to: '~/.ssh/jobman_config', mode: 0o600 };
}

function authorizeKeys(files: readonly string[]): string {
  return `touch authorized_keys
chmod 600 authorized_keys
for file in ${files.map((file) => quote(`./${file}`)).join(' ')}; do
  key=$(cat "$file")
  if ! grep -qxF -- "$key" authorized_keys; then
    # The last line may have no line end.
    [ -z "$(tail -c 1 authorized_keys)" ] || echo >>authorized_keys
    printf '%s\\n' "$key" >>authorized_keys
  fi
done`;
}

// ssh uses the first value it finds, so the Include must come first; at the end it would belong to the last block.
const includeConfig = `touch config
if ! grep -qxF 'Include ~/.ssh/jobman_config' config; then
  { echo 'Include ~/.ssh/jobman_config'; cat config; } >config.jobman
  mv config.jobman config
fi
chmod 600 config`;

function dedent(text: string): string {
  const lines = text.replaceAll('\t', '  ').split('\n');
  const margins = lines.filter((line) => line.trim() !== '').map((line) => line.length - line.trimStart().length);
  const margin = margins.length === 0 ? 0 : Math.min(...margins);
  return lines.map((line) => line.slice(margin)).join('\n');
}

/** The step for the first copy; `stepsOf` makes later ones. It has no check: only what the worker lacks is sent. */
export function workdirStep(): SetupStep {
  return {
    name: 'workdir',
    key: workdirKey(1),
    check: null,
    apply: unpackWorkdir,
    files: [],
    workdirCopy: 1,
    timeoutMs: 10 * minute,
  };
}

/** `$0` is `<root>/steps/<allocation>/<key>/try_<n>/apply`; see remote/run-folder.ts. */
const unpackWorkdir = `root=\${0%/steps/*}
cd "$root" || exit 1
[ -f workdir.files ] || { echo 'The working directory has not arrived.' >&2; exit 1; }
mkdir -p workdir && cd workdir || exit 1
count=$(tr -dc '\\000' <../workdir.remove | wc -c)
if [ $((count)) -gt 0 ]; then
  xargs -0 rm -rf -- <../workdir.remove || exit 1
fi
tar -x -z -p --no-same-owner -f ../workdir.files || exit 1
cd "$root" || exit 1
mv workdir.names workdir.sent || exit 1
rm -f workdir.files workdir.files.* workdir.remove workdir.remove.* workdir.names.*
echo "The working directory is in $root/workdir."
`;
