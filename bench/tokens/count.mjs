// Counts tokens (o200k_base). Reads one JSON string per line from stdin, writes one number per line.
//
//   node count.mjs TOKEN_TOOLS
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const { countTokens } = createRequire(`${process.argv[2]}/`)("gpt-tokenizer/encoding/o200k_base");
for await (const line of createInterface({ input: process.stdin }))
    console.log(countTokens(JSON.parse(line), { allowedSpecial: "all" }));
