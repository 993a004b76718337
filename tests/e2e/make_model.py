"""Write a random two-layer Llama with a tokenizer and a chat template into a folder; run by SGLang's own Python."""

import sys

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

TEMPLATE = "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}"
SENTENCES = ("a short sentence to learn byte pairs from", "numbers such as 12 and 345 occur as well") * 10


def make_tokenizer():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=512, special_tokens=["<s>", "</s>"], initial_alphabet=alphabet)
    tokenizer.train_from_iterator(SENTENCES, trainer)
    marks = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "</s>"}
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **marks)
    fast.chat_template = TEMPLATE
    return fast


def write_model(folder):
    tokenizer = make_tokenizer()
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=2048,
        bos_token_id=0,
        eos_token_id=1,
    )
    tokenizer.save_pretrained(folder)
    LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)


write_model(sys.argv[1])
