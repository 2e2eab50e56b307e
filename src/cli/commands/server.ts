import type { Cli } from '../context.ts';

export function server(cli: Cli, { listen }: { readonly listen?: string | undefined }): Promise<number> {
  return cli.services.serve({ listen });
}
