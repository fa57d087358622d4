/** `npm run format`: formats every file, and corrects what the linter can correct by itself. */
import { runTool } from './testing/stage.ts';

for (const [command, ...args] of [
  ['oxlint', '--type-aware', '--fix'],
  ['oxfmt', '.'],
] as const) {
  const { code, output } = await runTool(command, args);
  console.log(`${command}: ${output.trim()}`);
  if (code !== 0) process.exitCode = code;
}
