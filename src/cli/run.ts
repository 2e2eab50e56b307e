/** What the command line is given by the process it runs in. */
export interface Io {
  readonly version: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly stdin: NodeJS.ReadableStream;
  readonly stdout: NodeJS.WritableStream;
  readonly stderr: NodeJS.WritableStream;
}

/** Runs one command and returns its exit code. */
export async function run(argv: readonly string[], io: Io): Promise<number> {
  const [word] = argv;
  if (word === '--version' || word === '-v') {
    io.stdout.write(`jobman ${io.version}\n`);
    return 0;
  }
  if (word === undefined) {
    io.stdout.write(
      [
        `jobman ${io.version}`,
        '',
        'Run the example:  jobman create --config=configs/quick-start.yaml --follow',
        'See your jobs:    jobman list',
        '',
      ].join('\n'),
    );
    return 0;
  }
  io.stderr.write(`jobman: there is no command \`${word}\`.\n`);
  return 2;
}
