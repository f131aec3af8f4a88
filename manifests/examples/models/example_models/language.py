"""Language and speech models: transformers from their configuration, and a recurrent one."""

import torch
import transformers
from torch import Tensor, nn
from torch.nn import functional

Job = tuple[nn.Module, dict[str, Tensor]]


def bert(batch_size: int, *, length: int = 128, labels: bool = True) -> Job:
    """BERT-base for classifying sequences."""
    model = transformers.BertForSequenceClassification(transformers.BertConfig())
    return model, _classified(batch_size, length, labels=labels)


def distilbert(batch_size: int, *, length: int = 128, labels: bool = True) -> Job:
    """DistilBERT-base for classifying sequences."""
    model = transformers.DistilBertForSequenceClassification(transformers.DistilBertConfig())
    return model, _classified(batch_size, length, labels=labels)


def albert(batch_size: int, *, length: int = 128, labels: bool = True) -> Job:
    """ALBERT-base: 12 layers that share their parameters."""
    config = transformers.AlbertConfig(hidden_size=768, num_attention_heads=12, intermediate_size=3072)
    return transformers.AlbertForSequenceClassification(config), _classified(batch_size, length, labels=labels)


def gpt2(batch_size: int, *, length: int = 512, labels: bool = True) -> Job:
    """GPT-2 small, language modelling."""
    inputs = _tokens(batch_size, length)
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config())
    return model, {"input_ids": inputs, "labels": inputs} if labels else {"input_ids": inputs}


def t5(batch_size: int, *, source: int = 128, target: int = 64) -> Job:
    """T5-small, sequence to sequence."""
    model = transformers.T5ForConditionalGeneration(transformers.T5Config())
    labels = _tokens(batch_size, target)
    return model, {"input_ids": _tokens(batch_size, source), "decoder_input_ids": labels, "labels": labels}


def whisper(batch_size: int, *, target: int = 64) -> Job:
    """Whisper-base on 30 seconds of sound; the decoder reads `target` tokens at once."""
    config = transformers.WhisperConfig(
        d_model=512,
        encoder_layers=6,
        encoder_attention_heads=8,
        decoder_layers=6,
        decoder_attention_heads=8,
        encoder_ffn_dim=2048,
        decoder_ffn_dim=2048,
    )
    inputs = {"input_features": torch.empty(batch_size, 80, 3000), "decoder_input_ids": _tokens(batch_size, target)}
    return transformers.WhisperForConditionalGeneration(config), inputs


def wav2vec2(batch_size: int, *, seconds: int = 10) -> Job:
    """wav2vec 2.0 base with a CTC head; random masking and layer drop are off, they decide by data."""
    config = transformers.Wav2Vec2Config(apply_spec_augment=False, layerdrop=0.0)
    return transformers.Wav2Vec2ForCTC(config), {"input_values": torch.empty(batch_size, 16_000 * seconds)}


class LSTMLanguageModel(nn.Module):
    """A word-level language model: embedding, LSTM layers, softmax over the vocabulary."""

    def __init__(self, *, vocabulary: int, width: int, layers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.lstm = nn.LSTM(width, width, layers, dropout=0.2, batch_first=True)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """The mean cross entropy of the next tokens."""
        logits = self.head(self.lstm(self.embedding(tokens))[0])
        return {"loss": functional.cross_entropy(logits.flatten(0, 1), labels.flatten())}


def lstm(batch_size: int, *, width: int = 512, layers: int = 2, length: int = 200, vocabulary: int = 10_000) -> Job:
    """An LSTM language model of two layers."""
    tokens = _tokens(batch_size, length)
    model = LSTMLanguageModel(vocabulary=vocabulary, width=width, layers=layers)
    return model, {"tokens": tokens, "labels": tokens}


def _tokens(batch_size: int, length: int) -> Tensor:
    return torch.zeros(batch_size, length, dtype=torch.long)


def _classified(batch_size: int, length: int, *, labels: bool) -> dict[str, Tensor]:
    inputs = {"input_ids": _tokens(batch_size, length)}
    return {**inputs, "labels": torch.zeros(batch_size, dtype=torch.long)} if labels else inputs
