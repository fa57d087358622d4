/** Ends a child node when the stdin pipe to its parent closes. */

export function onParentExit(gone: () => void): void {
  const { stdin } = process;
  let told = false;
  const tell = (): void => {
    if (told) return;
    told = true;
    gone();
  };
  stdin.on('end', tell);
  stdin.on('close', tell);
  stdin.on('error', tell);
  stdin.resume();
}
