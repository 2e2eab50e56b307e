// The login. It covers the page and removes nothing from it, so that text that a person has typed is not lost.

import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { Command } from './parts/command.tsx';
import { Dialog } from './parts/dialog.tsx';
import { Failure } from './parts/messages.tsx';
import { serverPath } from './location.ts';
import { errorLines, logIn, loginMethods, startSession, onlyTokens } from './session.ts';

export function Login({ hadOne }: { readonly hadOne: boolean }) {
  const methods = useSignal(onlyTokens);
  useEffect(() => {
    document.title = 'Log in · jobman';
    void loginMethods().then((found) => (methods.value = found));
  }, []);
  const { oidc, onlyByAddress } = methods.value;
  return (
    <Dialog title="Log in" onClose={null}>
      {hadOne && <p>Your session has ended. Nothing that you typed is lost.</p>}
      {oidc !== null && (
        <p>
          <a class="button" href={loginHref()} target={hadOne ? '_blank' : '_self'} rel="noopener">
            Log in at {new URL(oidc.issuer).host}
          </a>
          {hadOne && (
            <>
              {' '}
              in another tab, then <button onClick={() => void startSession()}>Continue here</button>
            </>
          )}
        </p>
      )}
      {onlyByAddress === true ? (
        <>
          <p>The address of this dashboard works once, for one browser. This command prints a new one:</p>
          <Command text="jobman dashboard" />
        </>
      ) : (
        <TokenForm />
      )}
    </Dialog>
  );
}

function TokenForm() {
  const token = useSignal('');
  const failure = useSignal<readonly string[] | null>(null);
  const isBusy = useSignal(false);
  const enter = async (event: Event): Promise<void> => {
    event.preventDefault();
    isBusy.value = true;
    failure.value = null;
    await logIn(token.value.trim()).catch((error: unknown) => (failure.value = errorLines(error)));
    isBusy.value = false;
  };
  return (
    <>
      <form onSubmit={(event) => void enter(event)}>
        <label>
          Token
          <input
            type="password"
            name="token"
            autocomplete="current-password"
            required
            autofocus
            value={token.value}
            onInput={(event) => (token.value = event.currentTarget.value)}
          />
        </label>
        <button class="primary" disabled={isBusy.value}>
          Log in
        </button>
      </form>
      {failure.value !== null && <Failure lines={failure.value} retry={null} />}
      <p class="quiet">An admin creates your first token. This command creates more:</p>
      <Command text="jobman token create" />
    </>
  );
}

/** Opens this page again after the login. */
function loginHref(): string {
  const { pathname, search } = location;
  const page = `/${pathname.slice(serverPath('').length)}${search}`;
  return serverPath(`login/page?${new URLSearchParams({ page }).toString()}`);
}
